"""Rows in batches give the model of rows in memory, whatever the labels look like."""

from __future__ import annotations

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

from marda.io import InputError  # noqa: E402
from marda.workflow import ReadOptions, adapt  # noqa: E402
from marda.workflow.budget import memory_budget, rows_size  # noqa: E402
from marda.workflow.methods import chosen_method  # noqa: E402
from marda.workflow.outputs import Outputs  # noqa: E402
from marda.workflow.statistics import model_for  # noqa: E402
from marda.workflow.streaming import adapt_streaming, too_large  # noqa: E402
from workflow.tables import WORDS, rows, table_of, write_pair  # noqa: E402

OPTIONS = ReadOptions("y", id="id")


def relative(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


def both(source, target, options=OPTIONS, **parameters):
    """The model in batches and the one of rows in memory."""
    streamed = adapt_streaming(source, target, options, Outputs(target), **parameters)
    held = adapt(source, target, options, **parameters)
    if streamed.model.classifier == "dscm":  # it has no coefficients
        X = rows(50, shift=0.3, seed=3)[0]
        ours, theirs = (r.model.predict_proba(X) for r in (streamed, held))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    else:
        assert relative(streamed.model.coef_, held.model.coef_) < 1e-9
        assert relative(streamed.model.intercept_, held.model.intercept_) < 1e-9
    assert streamed.model.classes_.tolist() == held.model.classes_.tolist()
    assert streamed.model.classes_.dtype == held.model.classes_.dtype
    assert streamed.model.setting_ == held.model.setting_
    assert streamed.preprocessing.features == held.preprocessing.features
    assert streamed.summary.n_labelled_target == held.n_labelled_target
    return streamed, held


@pytest.mark.parametrize("method", ["BL", "MCF", "S1", "S1M", "S1D", "J12D"])
@pytest.mark.parametrize("classifier", ["ridge", "dscm"])
def test_the_model_of_rows_in_memory(tmp_path, method, classifier):
    both(*write_pair(tmp_path), method=method, classifier=classifier)


def every_second(values, gap=None):
    """A gap in place of every second value."""
    return [gap if k % 2 else v for k, v in enumerate(values)]


KINDS = {
    "int8": (lambda y: y.astype(np.int8), None),
    "minus one": (lambda y: y - 1, lambda y: every_second((y - 1).tolist())),
    "float and NaN": (lambda y: y.astype(float), lambda y: every_second(y.tolist(), np.nan)),
    "null": (lambda y: WORDS[y], lambda y: every_second(WORDS[y])),
    "empty": (lambda y: WORDS[y], lambda y: every_second(WORDS[y], "")),
    "dictionary": (lambda y: pa.array(WORDS[y]).dictionary_encode(), lambda y: WORDS[y]),
    "digits": (lambda y: list(map(str, y)), lambda y: every_second(map(str, y), "NA")),
    "bool": (lambda y: y == 0, None),
    "words, numbers": (lambda y: ["x" if v else "7" for v in y], lambda y: every_second([7] * 200)),
    "all null": (lambda y: y, lambda y: pa.nulls(len(y))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_every_kind(tmp_path, kind):
    source, target = KINDS[kind]
    both(*write_pair(tmp_path, source=source, target=target), method="S1D")


def test_class_means_with_some_target_labels(tmp_path):
    pair = write_pair(tmp_path, target=lambda y: every_second(WORDS[y]))
    streamed, _ = both(*pair, method="S1C")
    assert streamed.model.setting_ == "SS"


def test_float32_rows_are_summed_as_rows_in_memory_are(tmp_path):
    for name, shift, labels in (("s", 0.0, True), ("t", 5.0, False)):
        X, y = rows(300, shift=1000 + shift)
        table = table_of(X.astype(np.float32), WORDS[y] if labels else None)
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=40)
    both(tmp_path / "s.parquet", tmp_path / "t.parquet", method="S1D")


@pytest.mark.parametrize("method", ["S1D", "J12D"])
def test_scaling_is_algebra_on_statistics(tmp_path, method):
    pair = write_pair(tmp_path, scale=1e5)
    options = ReadOptions("y", id="id", scale="standard")
    streamed, held = both(*pair, options, method=method)
    ours, theirs = (r.preprocessing.steps for r in (streamed, held))
    assert [s.name for s in ours] == [s.name for s in theirs]
    np.testing.assert_allclose([s.center for s in ours], [s.center for s in theirs], rtol=1e-12)
    np.testing.assert_allclose([s.scale for s in ours], [s.scale for s in theirs], rtol=1e-12)


def test_a_constant_column_stays_as_it_is(tmp_path):
    for name, labels in (("s", True), ("t", False)):
        X, y = rows(60)
        X[:, 2] = 0.1
        table = table_of(X, WORDS[y] if labels else None)
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=7)
    options = ReadOptions("y", id="id", scale="standard")
    pair = tmp_path / "s.parquet", tmp_path / "t.parquet"
    result = adapt_streaming(*pair, options, Outputs())
    assert result.preprocessing.steps[2].scale == 1.0
    assert np.isfinite(result.model.coef_).all()


def test_folders_are_their_files(tmp_path):
    source, target = write_pair(tmp_path)
    folder = tmp_path / "source"
    folder.mkdir()
    whole = pq.read_table(source)
    for k, part in enumerate((whole.slice(0, 100), whole.slice(100), whole.slice(0, 0))):
        pq.write_table(part, folder / f"{k}.parquet", row_group_size=30)
    both(folder, target, method="S1D")


def test_what_statistics_tell(tmp_path):
    source, target = write_pair(tmp_path, scale=3.0)
    result = adapt_streaming(source, target, OPTIONS, Outputs(target, out=tmp_path / "p.csv"))
    (X, y), (T, _) = rows(300, seed=1, scale=3.0), rows(200, shift=0.7, seed=2, scale=3.0)

    def distance(A, B):
        inner = np.sqrt((A.var(0) * len(A) + B.var(0) * len(B)) / (len(A) + len(B)))
        return (A.mean(0) - B.mean(0)) / inner

    before = distance(X, T)
    after = distance(result.model.transform(X), result.model.transform(T))
    summary = result.summary
    assert summary.distance_before == pytest.approx(np.sqrt((before**2).mean()), rel=1e-9)
    assert summary.distance_after == pytest.approx(np.sqrt((after**2).mean()), rel=1e-9)
    farthest = np.argsort(-np.abs(before))[:3]
    assert [name for name, _ in summary.farthest] == [f"f{i}" for i in farthest]
    assert summary.domains[0].labelled == {w: int((y == k).sum()) for k, w in enumerate(WORDS)}
    assert (summary.domains[1].n_rows, summary.domains[1].labelled) == (200, {})
    predicted = result.model.predict(T)
    assert result.predicted == {w: int((predicted == w).sum()) for w in WORDS}
    told = result.to_json()
    assert told["from_statistics"] is True
    assert told["rows"] == {"source": 300, "target": 200, "labelled_target": 0}
    assert any("not calibrated" in note for note in told["notes"])
    assert any("A-distance" in note for note in told["notes"])


def test_warnings_from_statistics(tmp_path):
    for name, n, labels in (("s", 60, True), ("t", 9, False)):
        X, y = rows(n)
        X[:, 0] *= 1e-5
        X[:, 5] = n
        table = table_of(X, WORDS[y] if labels else None)
        pq.write_table(table, tmp_path / f"{name}.parquet")
    pair = tmp_path / "s.parquet", tmp_path / "t.parquet"
    found = {f.code: f.text for f in adapt_streaming(*pair, OPTIONS, Outputs()).summary.findings}
    assert "target has 9 rows" in found["few-rows"]
    assert "as much as 'f0'" in found["scales"]
    assert "'f5' is constant in each domain" in found["leakage"]


def test_predictions_of_one_class_are_a_warning(tmp_path):
    X, y = rows(300)
    pq.write_table(table_of(X, WORDS[y]), tmp_path / "s.parquet")
    pq.write_table(table_of(X[y == 1] * 1.0), tmp_path / "t.parquet")
    pair = tmp_path / "s.parquet", tmp_path / "t.parquet"
    result = adapt_streaming(*pair, OPTIONS, Outputs(pair[1], out=tmp_path / "p.csv"), method="BL")
    assert {"single-class", "proportions"} & {f.code for f in result.summary.findings}


def test_how_large_rows_are(tmp_path, monkeypatch):
    source, target = write_pair(tmp_path)
    assert rows_size(source, None, {"y", "id"}) == 300 * 6 * 8
    assert rows_size(tmp_path, None, {"y", "id"}) == 500 * 6 * 8
    assert rows_size("sample:source", None, set()) == 0
    (tmp_path / "a.csv").write_text("a,y\n1,2\n")
    assert rows_size(tmp_path / "a.csv", None, set()) == 8
    assert too_large(source, target, OPTIONS, "24001") is None
    assert "24 kB, more than the 23.9 kB" in too_large(source, target, OPTIONS, "23.9kB")
    monkeypatch.setenv("MARDA_MEMORY", "80kB")
    assert memory_budget(None) == 20_000
    assert memory_budget("50%") == 40_000
    assert memory_budget("1MB") == 10**6
    assert too_large(source, target, OPTIONS) is not None
    for wrong in ("", "-1", "0", "0%", "101%", "%", "much"):
        with pytest.raises(InputError, match=r"--memory: a size such as 4GB or a share"):
            memory_budget(wrong)


def test_text_files_are_not_streamed_and_say_what_to_do(tmp_path):
    source, _ = write_pair(tmp_path)
    (tmp_path / "a.csv").write_text("f0\n" + "1\n" * 100)
    with pytest.raises(InputError, match=r"a\.csv is too large .* convert it to Parquet"):
        too_large(source, tmp_path / "a.csv", OPTIONS, "1kB")
    with pytest.raises(InputError, match=r"a\.csv is not Parquet"):
        adapt_streaming(source, tmp_path / "a.csv", OPTIONS, Outputs())


def test_the_default_method_is_chosen_in_one_place():
    assert chosen_method("J12", rows=True) == ("J12", ())
    assert chosen_method("J12", rows=False) == ("J12", ())
    method, notes = chosen_method(None, rows=False)
    assert method == "S1D"
    assert "no --method was named: S1D" in notes[0]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"classifier": "nn"}, "'ridge' or 'dscm'"),
        ({"refine": 1}, "refine"),
        ({"n_layers": 2}, "n_layers"),
        ({"solver": "cg"}, "solver='cg' needs rows"),
    ],
)
def test_models_that_need_rows_are_refused_before_any_work(parameters, words):
    with pytest.raises(InputError, match=words):
        model_for("S1D", None, **parameters)
    with pytest.raises(InputError, match="auto needs rows in memory"):
        model_for("auto", None)
    with pytest.raises(InputError, match="S9"):
        model_for("S9", None)
