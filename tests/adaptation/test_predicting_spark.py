"""Predictions made on Spark's executors are those of `predict`."""

from __future__ import annotations

import numpy as np
import pytest

import marda
from marda import MDAClassifier, Moments
from marda.adaptation import predict, predict_on_spark
from marda.io import InputError

pd = pytest.importorskip("pandas")
N = 60
TYPES = {
    "visits": "bigint",
    "paid": "double",
    "plan": "string",
    "since": "timestamp",
    "said": "string",
}


def rows(seed, labelled):
    """A number, an amount with gaps, a category, a time and a text."""
    rng = np.random.default_rng(seed)
    y = np.arange(N) % 2
    good, bad = ["kind", "quick", "tidy"], ["rude", "late", "dirty"]
    words = [good if rng.random() < 0.2 + 0.6 * c else bad for c in y]
    frame = pd.DataFrame(
        {
            "visits": rng.poisson(3 + 2 * y),
            "paid": np.where(rng.random(N) < 0.1, np.nan, rng.normal(20 + y, 3).round(2)),
            "plan": np.where(rng.random(N) < 0.3 + 0.4 * y, "large", "small"),
            "since": np.datetime64("2023-05-01T10:00:00", "s")
            + rng.permutation(N) * np.timedelta64(5000, "s"),
            "said": [f"they were {w[k % 3]} to us, case {k}" for k, w in enumerate(words)],
        }
    )
    return frame.assign(y=np.array(["no", "yes"])[y]) if labelled else frame


SOURCE, TARGET = rows(1, True), rows(2, False)
NEW = rows(3, False).assign(**{"the row": np.arange(N)})


class Frame:
    """As much of a Spark data frame as is used, in batches of a few rows."""

    def __init__(self, held, types):
        self.held, self.dtypes = held, list(types.items())

    def select(self, *names):
        return Frame(self.held[[n[1:-1].replace("``", "`") for n in names]], dict(self.dtypes))

    def mapInPandas(self, task, schema):
        cuts = [self.held.iloc[k : k + 7] for k in range(0, len(self.held), 7)]
        self.schema = schema
        self.rows = pd.concat([*task(iter([self.held.iloc[:0], *cuts]))])
        return self


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    found = marda.adapt(SOURCE, TARGET, label="y", missing="impute", method="S1")
    path = tmp_path_factory.mktemp("model") / "m.marda"
    found.model.save(path)
    return path


@pytest.fixture(scope="module")
def served(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    NEW.to_csv(folder / "n.csv", index=False)
    predict(model, folder / "n.csv", folder / "p.csv")
    return pd.read_csv(folder / "p.csv").drop(columns="row")


def test_as_files_are_predicted(model, served):
    frame = Frame(NEW, {**TYPES, "the row": "int"})
    done = predict_on_spark(frame, model)
    assert done.schema.startswith(
        "`visits` bigint, `paid` double, `plan` string, `since` timestamp"
    )
    assert done.schema.endswith(
        "`the row` int, `prediction` string, `probability` double, `probability_no` double, "
        "`probability_yes` double"
    )
    kept = done.rows[served.columns].reset_index(drop=True)
    pd.testing.assert_frame_equal(kept, served, check_dtype=False, atol=1e-9)
    few = predict_on_spark(frame, model, keep=["the row"]).rows
    assert [*few.columns] == ["the row", *served.columns]
    assert [*few["the row"]] == [*range(N)]
    none = predict_on_spark(Frame(NEW.iloc[:0], TYPES), model, keep=[])
    assert none.rows.shape == (0, 4)


def test_a_model_of_moments_takes_its_columns_by_name(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(np.arange(N)[:, None] % 2, (0.3, 3), (N, 2)), columns=["a`b", "c"])
    y = np.arange(N) % 2
    moments = Moments.from_arrays(X, y) + Moments.from_arrays(X, None, np.full(N, -1))
    fitted = MDAClassifier("S1").fit_moments(moments)
    fitted.save(tmp_path / "m")
    done = predict_on_spark(Frame(X[["c", "a`b"]], dict.fromkeys(X, "double")), tmp_path / "m")
    assert "`a``b` double" in done.schema
    assert "`prediction` bigint" in done.schema
    assert [*done.rows["prediction"]] == fitted.predict(X).tolist()


@pytest.mark.parametrize(
    ("types", "held", "words"),
    [
        ({"visits": "string"}, {}, "'visits' holds string, and the model wants tinyint"),
        ({"since": "string"}, {}, "'since' holds string, and the model wants date or timestamp"),
        ({"plan": "boolean"}, {}, "'plan' holds boolean, and the model wants string"),
        ({"said": "array<string>"}, {}, "'said' holds array<string>, and the model wants string"),
        ({"prediction": "int"}, {}, "a column is called 'prediction' as the predictions are"),
        ({"paid": None, "Paid": "double"}, {}, "no column 'paid' .did you mean 'Paid'"),
    ],
)
def test_refused_on_the_driver(model, types, held, words):
    every = {name: kind for name, kind in {**TYPES, **types}.items() if kind}
    with pytest.raises(InputError, match=words):
        predict_on_spark(Frame(NEW, every), model)


def test_other_refusals(model, tmp_path):
    with pytest.raises(InputError, match="a Spark data frame is needed, got DataFrame"):
        predict_on_spark(NEW, model)
    with pytest.raises(InputError, match="no column 'x'"):
        predict_on_spark(Frame(NEW, TYPES), model, keep=["x"])
    MDAClassifier("BL").fit(np.eye(4), [0, 1, 0, 1]).save(tmp_path / "m")
    with pytest.raises(InputError, match="takes a matrix of 4 features: fit it on columns"):
        predict_on_spark(Frame(NEW, TYPES), tmp_path / "m")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_spark_gives_the_same(spark, model, served):
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    held = NEW.astype({"since": "datetime64[us]"})
    typed = [
        (int(r[0]), None if np.isnan(r[1]) else r[1], r[2], r[3].to_pydatetime(), r[4], r[5])
        for r in held.itertuples(index=False)
    ]
    schema = ", ".join(f"`{n}` {kind}" for n, kind in {**TYPES, "the row": "int"}.items())
    frame = spark.createDataFrame(typed, schema).repartition(3)
    done = predict_on_spark(frame, model, keep=["the row"])
    assert done.columns == ["the row", *served.columns]
    found = sorted(done.collect(), key=lambda row: row["the row"])
    assert [row["prediction"] for row in found] == [*served["prediction"]]
    np.testing.assert_allclose(
        [row["probability_yes"] for row in found], served["probability_yes"], atol=1e-9
    )
