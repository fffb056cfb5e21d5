"""cuML: machine learning, against scikit-learn or against what the data was made of."""

from ops import close, need, op, run, same

cuml, numpy, sklearn = need("cuml", "numpy", "sklearn")
from sklearn import cluster, datasets, decomposition, linear_model, metrics, neighbors, preprocessing  # noqa: E402

x, group = datasets.make_blobs(400, 8, centers=4, cluster_std=1.0, random_state=1)
x = x.astype(numpy.float32)
a, b = datasets.make_regression(300, 6, noise=0.5, random_state=1)
a, b = a.astype(numpy.float32), b.astype(numpy.float32)
two = (group % 2).astype(numpy.float32)


@op
def k_means():
    found = cuml.KMeans(n_clusters=4, random_state=1, n_init=5).fit(x)
    assert metrics.adjusted_rand_score(group, found.labels_) > 0.99


@op
def dbscan():
    found = cuml.DBSCAN(eps=3, min_samples=5).fit_predict(x)
    assert metrics.adjusted_rand_score(cluster.DBSCAN(eps=3, min_samples=5).fit_predict(x), found) > 0.99


@op
def hdbscan():
    found = cuml.cluster.HDBSCAN(min_cluster_size=20).fit_predict(x)
    assert metrics.adjusted_rand_score(group, found) > 0.9


@op
def pca():
    got = cuml.PCA(n_components=3).fit(x)
    want = decomposition.PCA(3).fit(x)
    close(got.explained_variance_, want.explained_variance_, 1e-2)
    close(abs(got.transform(x)), abs(want.transform(x)), 1e-2)


@op
def truncated_svd():
    got = cuml.TruncatedSVD(n_components=3).fit(x)
    close(got.singular_values_, numpy.linalg.svd(x)[1][:3], 1e-2)


@op
def linear_regression():
    got = cuml.LinearRegression().fit(a, b)
    close(got.predict(a), linear_model.LinearRegression().fit(a, b).predict(a), 1e-2)


@op
def ridge():
    close(cuml.Ridge(alpha=1.0).fit(a, b).coef_, linear_model.Ridge(alpha=1.0).fit(a, b).coef_, 1e-2)


@op
def lasso():
    close(cuml.Lasso(alpha=0.5).fit(a, b).coef_, linear_model.Lasso(alpha=0.5).fit(a, b).coef_, 0.1)


@op
def elastic_net():
    got = cuml.ElasticNet(alpha=0.5).fit(a, b).coef_
    close(got, linear_model.ElasticNet(alpha=0.5).fit(a, b).coef_, 0.1)


@op
def logistic_regression():
    got = cuml.LogisticRegression().fit(x, two).predict(x)
    want = linear_model.LogisticRegression().fit(x, two).predict(x)
    assert (got == want).mean() > 0.98


@op
def nearest_neighbours():
    distance, index = cuml.neighbors.NearestNeighbors(n_neighbors=5).fit(x).kneighbors(x[:50])
    want, where = neighbors.NearestNeighbors(n_neighbors=5).fit(x).kneighbors(x[:50])
    close(distance, want, 1e-2)
    assert (index == where).mean() > 0.99


@op
def neighbours_classifier():
    got = cuml.neighbors.KNeighborsClassifier(n_neighbors=5).fit(x, group).predict(x)
    same(got, neighbors.KNeighborsClassifier(5).fit(x, group).predict(x))


@op
def random_forest():
    got = cuml.ensemble.RandomForestClassifier(n_estimators=10, random_state=1).fit(x, group.astype(numpy.int32))
    assert (got.predict(x) == group).mean() > 0.97


@op
def random_forest_regression():
    got = cuml.ensemble.RandomForestRegressor(n_estimators=20, random_state=1).fit(a, b).predict(a)
    assert metrics.r2_score(b, got) > 0.85


@op
def support_vectors():
    got = cuml.svm.SVC(kernel="rbf").fit(x, two).predict(x)
    assert (got == two).mean() > 0.98


@op
def support_vector_regression():
    assert metrics.r2_score(b, cuml.svm.SVR(kernel="linear", C=10).fit(a, b).predict(a)) > 0.95


@op
def naive_bayes():
    got = cuml.naive_bayes.GaussianNB().fit(x, group).predict(x)
    assert (got == group).mean() > 0.98


@op
def t_sne():
    some = slice(0, 200)
    got = cuml.TSNE(n_components=2, random_state=1, perplexity=20, max_iter=300).fit_transform(x[some])
    assert metrics.silhouette_score(got, group[some]) > 0.4


@op
def umap():
    got = cuml.UMAP(n_neighbors=15, random_state=1, n_epochs=100).fit_transform(x)
    assert metrics.silhouette_score(got, group) > 0.4


@op
def scaler():
    close(cuml.preprocessing.StandardScaler().fit_transform(x), preprocessing.StandardScaler().fit_transform(x), 1e-3)


@op
def distances():
    close(cuml.metrics.pairwise_distances(x[:50]), metrics.pairwise_distances(x[:50]), 2e-2)


@op
def silhouette():
    got = cuml.metrics.cluster.silhouette_score(x, group.astype(numpy.int32))
    close(got, metrics.silhouette_score(x, group), 1e-3)


@op
def holt_winters():
    t = numpy.arange(120)
    series = 10 + 0.1 * t + numpy.sin(t * 2 * numpy.pi / 12)
    got = cuml.ExponentialSmoothing(series, seasonal="additive", seasonal_periods=12).fit().forecast(12)
    n = numpy.arange(120, 132)
    assert abs(got.to_numpy() - (10 + 0.1 * n + numpy.sin(n * 2 * numpy.pi / 12))).max() < 0.5


@op
def kernel_density():
    got = cuml.neighbors.KernelDensity(bandwidth=1.0).fit(x).score_samples(x[:20])
    close(got, neighbors.KernelDensity(bandwidth=1.0).fit(x).score_samples(x[:20]), 1e-2)


run()
