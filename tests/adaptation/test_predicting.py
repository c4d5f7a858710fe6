"""`predict`: the labels of the model, whatever the batches and wherever the model was saved."""

from __future__ import annotations

import numpy as np
import pytest

from adaptation.small import NAMES, XS, XT, YS, from_python, write
from marda import MDAClassifier, pack
from marda.adaptation import ReadOptions, adapt, load_model, predict, predicting
from marda.io import InputError, read_table


def test_batches_do_not_change_predictions(tmp_path, monkeypatch):
    source, target = write(tmp_path / "s.csv", XS, YS), write(tmp_path / "t.csv", XT)
    adapt(source, target, ReadOptions("y"), out=tmp_path / "a.csv", model=tmp_path / "m")
    monkeypatch.setattr(predicting, "MAX_BATCH_ROWS", 300)
    many = write(tmp_path / "many.csv", np.tile(XT, (20, 1)))
    done = predict(tmp_path / "m", many, tmp_path / "b.csv")
    assert done.n_rows == 900
    first = read_table(tmp_path / "a.csv")["prediction"].tolist()
    assert read_table(tmp_path / "b.csv")["prediction"].tolist() == first * 20
    assert sum(done.counts.values()) == 900


@pytest.mark.parametrize("named", [True, False])
def test_models_saved_from_python_serve_too(tmp_path, named):
    pd = pytest.importorskip("pandas")
    X, y, domain = pack(XS, YS, XT)
    rows = pd.DataFrame(X, columns=NAMES) if named else X
    model = MDAClassifier().fit(rows, y, sample_domain=domain)
    model.save(tmp_path / "m")
    new = write(tmp_path / ("n.csv" if named else "n.npz"), XT)
    predict(tmp_path / "m", new, tmp_path / "p.csv")
    wanted = model.predict(rows[len(XS) :])
    assert read_table(tmp_path / "p.csv")["prediction"].tolist() == [str(v) for v in wanted]


def test_columns_of_a_file_that_lie_are_refused_before_names_are_made(tmp_path):
    model = from_python()
    step = {"kind": "matrix", "width": 10**15}
    model.preprocessing_ = {"version": 1, "label": "y", "id": None, "steps": [step]}
    model.save(tmp_path / "m")
    with pytest.raises(InputError, match="do not fit"):
        load_model(tmp_path / "m")
