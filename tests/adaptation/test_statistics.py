"""What statistics alone tell, and which models they determine."""

from __future__ import annotations

import numpy as np
import pytest

from adaptation.tables import WORDS, rows, table_of, write_pair
from marda.adaptation import Outputs, ReadOptions, adapt_streaming
from marda.adaptation.statistics import model_for
from marda.io import InputError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

OPTIONS = ReadOptions("y", id="id")


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
        model_for("S1D", **parameters)
    with pytest.raises(InputError, match="auto needs rows, not statistics"):
        model_for("auto")
    with pytest.raises(InputError, match="S9"):
        model_for("S9")


def test_without_a_method_statistics_have_one_of_their_own():
    model, notes = model_for("J12")
    assert (model.method, notes) == ("J12", ())
    model, notes = model_for(None)
    assert model.method == "S1D"
    assert "no --method was named: S1D" in notes[0]
