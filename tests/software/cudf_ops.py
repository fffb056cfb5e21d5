"""cuDF: data frames, against pandas."""

from ops import close, need, op, run, same

cudf, pandas, numpy = need("cudf", "pandas", "numpy")

r = numpy.random.default_rng(1)
N = 3000
host = pandas.DataFrame(
    {
        "key": r.integers(0, 20, N),
        "x": r.random(N),
        "y": r.integers(-1000, 1000, N),
        "word": numpy.array(["alpha", "beta", "gamma", "delta", "Epsilon x"])[r.integers(0, 5, N)],
        "when": pandas.Timestamp("2026-01-01") + pandas.to_timedelta(r.integers(0, 10**7, N), unit="s"),
    }
)
gpu = cudf.DataFrame(host)


def equal(got, want):
    """Compares frames, series, indexes or scalars; the order counts, types of the same kind do not."""
    if hasattr(got, "to_pandas"):
        got = got.to_pandas()
    if isinstance(want, pandas.DataFrame):
        pandas.testing.assert_frame_equal(got, want, check_dtype=False, check_index_type=False, check_freq=False)
    elif isinstance(want, pandas.Series):
        pandas.testing.assert_series_equal(
            got, want, check_dtype=False, check_index_type=False, check_freq=False, check_names=False
        )
    elif isinstance(want, pandas.Index):
        pandas.testing.assert_index_equal(got, want, exact=False)
    else:
        close(got, want, 1e-9)


def both(name, function):
    """The same expression on cuDF's frame and on pandas'."""

    def test():
        equal(function(gpu, cudf), function(host, pandas))

    test.__name__ = name
    op(test)


def ordered(frame, *columns):
    return frame.sort_values(list(columns)).reset_index(drop=True)


both("sum", lambda d, m: d.x.sum())
both("mean", lambda d, m: d.x.mean())
both("std", lambda d, m: d.x.std())
both("quantile", lambda d, m: d.x.quantile(0.3))
both("median", lambda d, m: d.y.median())
both("minimum", lambda d, m: d.y.min())
both("skew", lambda d, m: d.x.skew())
both("add", lambda d, m: d.x + d.y)
both("power", lambda d, m: d.x**2.5)
both("floor_divide", lambda d, m: d.y // 7)
both("modulo", lambda d, m: d.y % 7)
both("compare", lambda d, m: d.x > 0.5)
both("filter", lambda d, m: d[d.x > 0.5])
both("query", lambda d, m: d.query("x > 0.2 and y < 100"))
both("sort", lambda d, m: d.sort_values(["key", "x"]))
both("sort_descending", lambda d, m: d.sort_values("x", ascending=False))
both("rank", lambda d, m: d.x.rank())
both("largest", lambda d, m: d.x.nlargest(10))
both("unique", lambda d, m: d.key.drop_duplicates().sort_values().reset_index(drop=True))
both("nunique", lambda d, m: d.key.nunique())
both("value_counts", lambda d, m: d.key.value_counts().sort_index())
both("group_sum", lambda d, m: d.groupby("key").x.sum().sort_index())
both("group_mean", lambda d, m: d.groupby("key").y.mean().sort_index())
both("group_several", lambda d, m: d.groupby("key")[["x", "y"]].agg(["min", "max", "count"]).sort_index())
both("group_two_keys", lambda d, m: d.groupby(["key", "word"]).x.sum().sort_index())
both("group_std", lambda d, m: d.groupby("key").x.std().sort_index())
both("group_median", lambda d, m: d.groupby("key").x.median().sort_index())
both("group_cumsum", lambda d, m: d.groupby("key").y.cumsum())
both("group_transform", lambda d, m: d.groupby("key").x.transform("mean"))
both("rolling", lambda d, m: d.x.rolling(5).sum())
both("rolling_minimum", lambda d, m: d.y.rolling(7).min())
both("cumsum", lambda d, m: d.y.cumsum())
both("cummax", lambda d, m: d.y.cummax())
both("shift", lambda d, m: d.y.shift(3))
both("difference", lambda d, m: d.y.diff())
both("fill", lambda d, m: d.y.shift(3).fillna(7))
both("drop_missing", lambda d, m: d.y.shift(3).dropna())
both("where", lambda d, m: d.y.where(d.x > 0.5, 0))
both("clip", lambda d, m: d.y.clip(-10, 10))
both("concat", lambda d, m: m.concat([d, d]))
both("upper", lambda d, m: d.word.str.upper())
both("length", lambda d, m: d.word.str.len())
both("contains", lambda d, m: d.word.str.contains("a"))
both("contains_regex", lambda d, m: d.word.str.contains("^[a-d].*a$"))
both("replace", lambda d, m: d.word.str.replace("a", "oo", regex=False))
both("slice", lambda d, m: d.word.str.slice(1, 3))
both("join_words", lambda d, m: d.word + "-" + d.word)
both("find", lambda d, m: d.word.str.find("a"))
both("to_text", lambda d, m: d.y.astype("str"))
both("from_text", lambda d, m: d.y.astype("str").astype("int64"))
both("year", lambda d, m: d.when.dt.year)
both("weekday", lambda d, m: d.when.dt.weekday)
both("time_difference", lambda d, m: (d.when - d.when.min()).dt.total_seconds())
both("category", lambda d, m: d.word.astype("category").cat.codes)
both("melt", lambda d, m: m.melt(d[["key", "y"]].head(50), id_vars=["key"]))
both("take", lambda d, m: d.iloc[[5, 3, 100]])
both("isin", lambda d, m: d.key.isin([1, 5, 7]))


@op
def merge():
    other = pandas.DataFrame({"key": range(0, 40, 2), "z": range(20)})
    got = gpu.merge(cudf.DataFrame(other), on="key")
    equal(ordered(got, "x", "y"), ordered(host.merge(other, on="key"), "x", "y"))


@op
def merge_left_by_words():
    other = pandas.DataFrame({"word": ["alpha", "gamma"], "z": [1.5, 2.5]})
    got = gpu.merge(cudf.DataFrame(other), on="word", how="left")
    equal(ordered(got, "x", "y"), ordered(host.merge(other, on="word", how="left"), "x", "y"))


@op
def apply_user_function():
    def mix(row):
        return row["x"] * 2 + row["y"] if row["key"] > 3 else 0.5

    equal(gpu[["key", "x", "y"]].apply(mix, axis=1), host[["key", "x", "y"]].apply(mix, axis=1))


@op
def apply_to_series():
    equal(gpu.y.apply(lambda v: v * v + 1), host.y.apply(lambda v: v * v + 1))


@op
def apply_to_words():
    equal(gpu.word.apply(lambda w: w.startswith("a")), host.word.apply(lambda w: w.startswith("a")))


@op
def apply_to_groups():
    def spread(group):
        return group["x"].max() - group["x"].min()

    got = gpu[["key", "x"]].groupby("key").apply(spread, engine="jit").sort_index()
    equal(got, host.groupby("key").x.apply(lambda v: v.max() - v.min()))


@op
def csv():
    import io

    text = host[["key", "x", "y", "word"]].to_csv(index=False)
    equal(cudf.read_csv(io.StringIO(text)), pandas.read_csv(io.StringIO(text)))


@op
def parquet():
    import io

    buffer = io.BytesIO()
    gpu[["key", "x", "y", "word"]].to_parquet(buffer)
    buffer.seek(0)
    equal(cudf.read_parquet(buffer), host[["key", "x", "y", "word"]])


@op
def json():
    import io

    text = host[["key", "y"]].head(200).to_json(orient="records", lines=True)
    equal(cudf.read_json(io.StringIO(text), lines=True), pandas.read_json(io.StringIO(text), lines=True))


@op
def to_cupy():
    same(gpu.y.to_cupy().get(), host.y.to_numpy())


run()
