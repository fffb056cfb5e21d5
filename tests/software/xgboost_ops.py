"""XGBoost: trees grown on the GPU, against those grown on the CPU."""

from ops import close, need, op, run

xgboost, numpy, sklearn = need("xgboost", "numpy", "sklearn")
from sklearn import datasets, metrics  # noqa: E402

x, y = datasets.make_regression(2000, 10, noise=1.0, random_state=1)
x = x.astype(numpy.float32)
a, b = datasets.make_classification(2000, 10, n_informative=6, random_state=1)
a = a.astype(numpy.float32)
few = numpy.round(a)  # few values: both find the same quantiles


def train(options, data, target, rounds=15, **more):
    """What is predicted by trees that grew on the GPU, and by those that grew on the CPU."""
    predictions = []
    for device in ("cuda", "cpu"):
        matrix = xgboost.DMatrix(data, target, **more)
        model = xgboost.train({"device": device, "tree_method": "hist", "seed": 1, **options}, matrix, rounds)
        predictions.append(model.predict(matrix))
    return predictions


def both(options, data, target, rounds=15, **more):
    """The quantiles of the two differ, so the trees do; they are equally good."""
    got, want = (metrics.roc_auc_score(target, p) for p in train(options, data, target, rounds, **more))
    assert abs(got - want) < 0.01, (got, want)


@op
def the_same_trees():
    got, want = train({"objective": "binary:logistic", "max_depth": 3, "min_child_weight": 0}, few, b, 5)
    close(got, want, 1e-4)


@op
def regression():
    got, want = (metrics.r2_score(y, p) for p in train({"objective": "reg:squarederror"}, x, y))
    assert abs(got - want) < 0.01, (got, want)


@op
def logistic():
    both({"objective": "binary:logistic"}, a, b)


@op
def several_classes():
    three = (a[:, 0] > 0) + (a[:, 1] > 0).astype(int)
    got, want = (
        (p.argmax(1) == three).mean() for p in train({"objective": "multi:softprob", "num_class": 3}, a, three)
    )
    assert abs(got - want) < 0.01, (got, want)


@op
def deep():
    both({"objective": "binary:logistic", "max_depth": 9}, a, b, 5)


@op
def lossguide():
    both({"objective": "binary:logistic", "grow_policy": "lossguide", "max_leaves": 16}, a, b)


@op
def regularised():
    both({"objective": "binary:logistic", "lambda": 5, "alpha": 1, "gamma": 0.5}, a, b)


@op
def weights():
    both({"objective": "binary:logistic"}, a, b, weight=numpy.where(b, 2.0, 1.0))


@op
def missing_values():
    holes = a.copy()
    holes[::5, 3] = numpy.nan
    both({"objective": "binary:logistic"}, holes, b)


@op
def ranking():
    groups = [20] * 100
    matrix = xgboost.DMatrix(a, b)
    matrix.set_group(groups)
    model = xgboost.train({"device": "cuda", "objective": "rank:ndcg", "seed": 1}, matrix, 15)
    assert metrics.roc_auc_score(b, model.predict(matrix)) > 0.9


@op
def samples_of_rows_and_columns():
    options = {"device": "cuda", "objective": "binary:logistic", "subsample": 0.7, "colsample_bytree": 0.7, "seed": 1}
    matrix = xgboost.DMatrix(a, b)
    assert metrics.roc_auc_score(b, xgboost.train(options, matrix, 20).predict(matrix)) > 0.95


@op
def prediction():
    matrix = xgboost.DMatrix(a, b)
    model = xgboost.train({"device": "cuda", "objective": "binary:logistic"}, matrix, 10)
    got = model.predict(matrix)
    model.set_param({"device": "cpu"})
    close(got, model.predict(matrix), 1e-5)


@op
def contributions():
    matrix = xgboost.DMatrix(a, b)
    model = xgboost.train({"device": "cuda", "objective": "binary:logistic", "max_depth": 4}, matrix, 5)
    got = model.predict(matrix, pred_contribs=True)
    model.set_param({"device": "cpu"})
    close(got, model.predict(matrix, pred_contribs=True), 1e-4)


@op
def early_stopping():
    train, test = xgboost.DMatrix(a[:1500], b[:1500]), xgboost.DMatrix(a[1500:], b[1500:])
    options = {"device": "cuda", "objective": "binary:logistic", "eval_metric": "logloss"}
    results = {}
    xgboost.train(options, train, 50, [(test, "t")], early_stopping_rounds=5, evals_result=results, verbose_eval=False)
    assert min(results["t"]["logloss"]) < 0.4


@op
def quantile_matrix():
    matrix = xgboost.QuantileDMatrix(a, b)
    model = xgboost.train({"device": "cuda", "objective": "binary:logistic"}, matrix, 10)
    assert metrics.roc_auc_score(b, model.predict(xgboost.DMatrix(a))) > 0.95


run()
