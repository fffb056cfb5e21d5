"""CatBoost: training on the GPU, compared with what it learns on the CPU."""

import tempfile

from ops import close, need, op, run

catboost, numpy, sklearn = need("catboost", "numpy", "sklearn")
from sklearn import datasets, metrics  # noqa: E402

x, y = datasets.make_regression(1500, 8, noise=1.0, random_state=1)
a, b = datasets.make_classification(1500, 8, n_informative=5, random_state=1)
OPTIONS = dict(iterations=30, depth=4, learning_rate=0.2, verbose=0, random_seed=1, train_dir=tempfile.mkdtemp())


def both(kind, data, target, score, margin, **more):
    got = kind(task_type="GPU", devices="0", **{**OPTIONS, **more}).fit(data, target)
    want = kind(task_type="CPU", **{**OPTIONS, **more}).fit(data, target)
    g, w = score(target, got.predict(data)), score(target, want.predict(data))
    assert g > w - margin, (g, w)
    return got


@op
def regression():
    both(catboost.CatBoostRegressor, x, y, metrics.r2_score, 0.05)


@op
def classification():
    both(catboost.CatBoostClassifier, a, b, metrics.accuracy_score, 0.03)


@op
def several_classes():
    both(catboost.CatBoostClassifier, a, (a[:, 0] > 0) + 2 * (a[:, 1] > 0), metrics.accuracy_score, 0.03)


@op
def logistic_with_more_bins():
    both(catboost.CatBoostClassifier, a, b, metrics.accuracy_score, 0.03, border_count=254)


@op
def few_bins():
    both(catboost.CatBoostRegressor, x, y, metrics.r2_score, 0.05, border_count=15)


@op
def deep():
    both(catboost.CatBoostRegressor, x, y, metrics.r2_score, 0.05, depth=7, iterations=10)


@op
def depthwise():
    both(catboost.CatBoostRegressor, x, y, metrics.r2_score, 0.05, grow_policy="Depthwise", iterations=10)


@op
def plain_boosting():
    both(catboost.CatBoostRegressor, x, y, metrics.r2_score, 0.05, boosting_type="Plain")


@op
def bernoulli():
    both(catboost.CatBoostRegressor, x, y, metrics.r2_score, 0.08, bootstrap_type="Bernoulli", subsample=0.8)


@op
def categories():
    data = numpy.empty((1500, 3), object)
    data[:, 0], data[:, 1], data[:, 2] = a[:, 0], (a[:, 1] * 2).astype(int), (a[:, 2] * 3).astype(int)
    both(catboost.CatBoostClassifier, data, b, metrics.accuracy_score, 0.04, cat_features=[1, 2])


@op
def missing_values():
    holes = x.copy()
    holes[::7, 2] = numpy.nan
    both(catboost.CatBoostRegressor, holes, y, metrics.r2_score, 0.05)


@op
def weights():
    options = {**OPTIONS, "task_type": "GPU", "devices": "0"}
    w = numpy.where(numpy.arange(1500) % 2, 1.0, 0.0)
    model = catboost.CatBoostRegressor(**options).fit(x, y, sample_weight=w)
    assert metrics.r2_score(y[1::2], model.predict(x[1::2])) > 0.8


@op
def prediction_on_the_gpu():
    model = catboost.CatBoostRegressor(task_type="GPU", devices="0", **OPTIONS).fit(x, y)
    close(model.predict(x, task_type="GPU"), model.predict(x), 1e-4)


@op
def evaluation_set():
    model = catboost.CatBoostRegressor(task_type="GPU", devices="0", **OPTIONS)
    model.fit(x[:1000], y[:1000], eval_set=(x[1000:], y[1000:]))
    losses = model.get_evals_result()["validation"]["RMSE"]
    assert losses[-1] < losses[0] / 2, (losses[0], losses[-1])


@op
def mean_absolute_error():
    exact = dict(leaf_estimation_method="Exact", boosting_type="Plain")  # the GPU's default is another one
    both(catboost.CatBoostRegressor, x, y, metrics.r2_score, 0.1, loss_function="MAE", iterations=50, **exact)


run()
