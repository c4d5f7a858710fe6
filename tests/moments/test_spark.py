"""Sums made on Spark's executors are those of the rows."""

import numpy as np
import pytest

from marda import MDAClassifier, Moments
from marda.io.table import InputError
from marda.moments.spark import moments_from_spark
from problems import make_case

pd = pytest.importorskip("pandas")
NAMES = [f"f {i}" for i in range(6)]


class Frame:
    """As much of a Spark data frame as is used, with partitions of a few rows."""

    def __init__(self, rows, types, per_partition=7, again=()):
        self.rows, self.dtypes = rows, list(types.items())
        self.per_partition, self.again = per_partition, again

    def select(self, *names):
        assert all(n.startswith("`") and n.endswith("`") for n in names)
        rows = self.rows[[n.strip("`") for n in names]]
        return Frame(rows, dict(self.dtypes), self.per_partition)

    def mapInPandas(self, task, schema):
        assert schema == "part binary, problem string"
        self.task = task
        return self

    def toLocalIterator(self):
        for start in range(0, len(self.rows), self.per_partition):
            part = self.rows.iloc[start : start + self.per_partition]
            yield from self._run(iter([part.iloc[:3], part.iloc[3:3], part.iloc[3:]]))
        yield from self._run(iter([]))  # an empty partition

    def _run(self, batches):
        for found in self.task(batches):
            yield from found.to_dict("records")


def pandas_of(case, keep, names=NAMES):
    rows = pd.DataFrame(case.X[keep] + 100, columns=names)
    codes = case.codes[keep]
    rows["y"] = [int(c) if c >= 0 else None for c in codes]
    return rows


def types_of(label="int"):
    return {**dict.fromkeys(NAMES, "double"), "y": label}


def direct_of(case, keep):
    return Moments.from_arrays(
        case.X[keep] + 100,
        case.codes[keep],
        np.where(case.domain >= 0, 0, -1)[keep],
        class_grams=True,
    )


def same(a, b):
    b = b.shifted(a.shift)
    assert a.classes.tolist() == b.classes.tolist()
    assert (a.domains.tolist(), a.labels.tolist()) == (b.domains.tolist(), b.labels.tolist())
    for name in ("counts", "sums", "squares", "gram", "gram_labelled", "class_grams"):
        ours, theirs = getattr(a, name), getattr(b, name)
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())


@pytest.fixture
def case():
    return make_case("SS", seed=3)


@pytest.mark.parametrize("role", ["source", "target"])
@pytest.mark.parametrize("size", [2, 7, 1000])
def test_partitions_add_up(case, role, size):
    keep = (case.domain >= 0) == (role == "source")
    seen = []
    found = moments_from_spark(
        Frame(pandas_of(case, keep), types_of(), size),
        label="y",
        domain="here",
        role=role,
        class_grams=True,
        progress=seen.append,
    )
    same(found, direct_of(case, keep))
    assert found.classes.dtype.kind == "i"
    assert found.feature_names.tolist() == NAMES
    assert list(found.domain_names.values()) == ["here"]
    assert seen == sorted(seen)
    assert seen[-1] == keep.sum()


def test_words_and_columns(case):
    rows = pandas_of(case, case.domain >= 0)
    rows["y"] = np.where(rows["y"] > 0, "yes", "no")
    frame = Frame(rows, types_of("string"))
    found = moments_from_spark(frame, label="y", features=["f 3", "f 1"])
    assert found.classes.tolist() == ["no", "yes"]
    assert found.feature_names.tolist() == ["f 3", "f 1"]
    assert found.domain_names == {}
    unlabelled = moments_from_spark(frame, features=["f 3"], role="target")
    assert unlabelled.labels.tolist() == [-1]


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda rows: rows.assign(**{"f 2": np.nan}), {}, "'f 2' has missing or infinite values"),
        (lambda rows: rows.assign(**{"f 2": np.inf}), {}, "'f 2' has missing or infinite values"),
        (lambda rows: rows[:0], {}, "has no rows"),
        (lambda rows: rows.assign(y=None), {}, "label"),
        (lambda rows: rows, {"label": "z"}, "no column 'z'"),
        (lambda rows: rows, {"features": ["f1"]}, "no column 'f1' .did you mean 'f 1'"),
        (lambda rows: rows, {"features": ["y"]}, "is the label"),
        (lambda rows: rows, {"features": []}, "no columns of numbers"),
    ],
)
def test_refused(case, change, options, words):
    frame = Frame(change(pandas_of(case, case.domain >= 0)), types_of())
    with pytest.raises(InputError, match=words):
        moments_from_spark(frame, **{"label": "y", **options})


def test_other_things_are_refused(case):
    rows = pandas_of(case, case.domain >= 0)
    with pytest.raises(InputError, match="a Spark data frame is needed, got DataFrame"):
        moments_from_spark(rows)
    with pytest.raises(InputError, match="'y' holds string, not numbers"):
        moments_from_spark(Frame(rows, types_of("string")))
    with pytest.raises(ValueError, match="role must be"):
        moments_from_spark(Frame(rows, types_of()), role="judge")


# The real thing -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_spark_gives_the_model_of_the_rows(case, spark):
    parts = []
    for role in ("source", "target"):
        keep = (case.domain >= 0) == (role == "source")
        rows = pandas_of(case, keep)
        held = [(*map(float, x), None if pd.isna(x[-1]) else int(x[-1])) for x in rows.to_numpy()]
        held = [(*x[:6], x[7]) for x in held]
        frame = spark.createDataFrame(
            held, ", ".join([*(f"`{n}` double" for n in NAMES), "y int"])
        ).repartition(3)
        found = moments_from_spark(frame, label="y", domain=role, role=role, class_grams=True)
        same(found, direct_of(case, keep))
        parts.append(found)
    model = MDAClassifier("S1D").fit_moments(parts[0] + parts[1])
    direct = MDAClassifier("S1D").fit(
        case.X + 100, case.codes, sample_domain=np.where(case.domain >= 0, 0, -1)
    )
    np.testing.assert_allclose(model.coef_, direct.coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_spark_says_what_is_wrong(spark):
    frame = spark.createDataFrame([(1.0, 0), (None, 1)], "a double, y int")
    with pytest.raises(InputError, match="'a' has missing or infinite values"):
        moments_from_spark(frame, label="y")
    with pytest.raises(InputError, match="has no rows"):
        moments_from_spark(frame.filter("a > 5"), label="y")
