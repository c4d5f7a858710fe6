"""Rows to label, and the way back."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from marda import MDAClassifier, load
from marda.adaptation import ReadOptions, adapt, evaluate, label, predicting
from marda.io import InputError, formats

from .small import NAMES, XS, XT, YS, YT, write

WORDS = np.array(["low", "mid", "top"], dtype=object)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A model of four columns; the target has words, a gap and signs beside them."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "s.csv", XS, WORDS[YS])
    rows = pd.DataFrame(XT, columns=NAMES)
    rows["key"] = [f"k{k}" for k in range(len(XT))]
    rows["note"] = [None, "=1+1", 'say "a, b"'] * 15
    rows.to_csv("t.csv", index=False)
    adapt("s.csv", "t.csv", ReadOptions("y", id="key", drop=("note",)), model="m", method="S1")
    return tmp_path


def numbers(path, names):
    """Columns to the last digit, which pandas 2 does not read by itself."""
    return pd.read_csv(path, dtype=str)[names].to_numpy().astype(np.float64)


def test_rows_are_written_with_a_column_to_fill_in(files):
    result = label("m", "t.csv", 6, out="r.csv")
    told = pd.read_csv("r.csv")
    names = ["key", *NAMES, "note", "prediction", "probability", "reason", "y"]
    assert told.columns.tolist() == names
    assert told["key"].tolist() == result.ids
    assert told["y"].isna().all()
    places = result.rows - 1
    np.testing.assert_array_equal(numbers("r.csv", NAMES), XT[places])
    model = load("m")
    assert told["prediction"].tolist() == model.predict(XT[places]).tolist()
    np.testing.assert_allclose(
        told["probability"], model.predict_proba(XT[places]).max(1), atol=1e-4
    )
    assert tuple(told["reason"]) == result.reasons
    given = pd.read_csv("t.csv")["note"][places]
    assert told["note"].fillna("").tolist() == given.fillna("").tolist()
    assert result.to_json()["to_label"][0]["id"] == result.ids[0]


def test_the_filled_file_is_a_target(files):
    result = label("m", "t.csv", 6, out="all.csv", whole=True)
    filled = pd.read_csv("all.csv", dtype=str)
    assert len(filled) == len(XT)
    assert filled["key"][:6].tolist() == result.ids
    truth = dict(zip([f"k{k}" for k in range(len(XT))], WORDS[YT], strict=True))
    filled.loc[:5, "y"] = [truth[key] for key in result.ids]
    filled.to_csv("filled.csv", index=False)
    done = adapt("s.csv", "filled.csv", ReadOptions("y", id="key", drop=("note",)), method="S1C",
                 model="again")  # fmt: skip
    assert done.n_labelled_target == 6
    assert done.model.setting_ == "SS"
    plain = MDAClassifier("S1C", unlabeled=None)
    order = [int(key[1:]) for key in filled["key"]]
    yt = np.full(len(XT), None, dtype=object)
    yt[result.rows - 1] = WORDS[YT[result.rows - 1]]
    domain = np.repeat([1, -2], [len(XS), len(XT)])
    y = np.concatenate([WORDS[YS], yt[order]])
    plain.fit(np.vstack([XS, XT[order]]), y, sample_domain=domain)
    np.testing.assert_array_equal(done.predictions, plain.predict(XT[order]))
    more = label("again", "filled.csv", 100)
    assert more.n_labelled == 6
    assert len(more.rows) == len(XT) - 6
    assert not {*more.ids} & {*result.ids}


def test_a_matrix_has_no_columns_to_write(files):
    MDAClassifier("S1").fit(XS, YS).save("plain.marda")
    np.savez("new.npz", X=XT)
    result = label("plain.marda", "new.npz", 4, out="r.csv")
    told = pd.read_csv("r.csv")
    assert told.columns.tolist() == ["row", "prediction", "probability", "reason", "label"]
    assert told["row"].tolist() == result.rows.tolist()
    with pytest.raises(InputError, match="holds a matrix"):
        label("plain.marda", "new.npz", 4, out="r.csv", whole=True)


def test_features_that_are_called_as_our_columns_stay(files):
    rows = {"reason": XS[:, 0], "row": XS[:, 1], "f2": XS[:, 2]}
    pd.DataFrame(rows | {"y": WORDS[YS]}).to_csv("s2.csv", index=False)
    pd.DataFrame({n: XT[:, k] for k, n in enumerate(rows)}).to_csv("t2.csv", index=False)
    adapt("s2.csv", "t2.csv", ReadOptions("y"), model="m2", method="S1")
    label("m2", "t2.csv", 3, out="r.csv", whole=True)
    told = pd.read_csv("r.csv")
    ours = ["prediction", "probability", "marda_reason", "y"]
    assert told.columns.tolist() == ["marda_row", *rows, *ours]
    np.testing.assert_array_equal(numbers("r.csv", "row"), XT[told["marda_row"] - 1, 1])


def test_nothing_left_to_label(files):
    write(files / "known.csv", XT, WORDS[YT])
    with pytest.raises(InputError, match="every row has a label in column 'y' already"):
        label("m", "known.csv")


def test_the_share_of_the_work_is_that_of_the_time(files, monkeypatch):
    """Reading takes 6 s, every batch of ten rows 1 s: after the first one 7 of 11 s are over."""
    now, told = [0.0], []
    write(files / "known.csv", XT, WORDS[YT])
    predict, read = predicting.classes_and_probabilities, predicting._read_whole

    def reading(*args):
        now[0] += 6.0
        return read(*args)

    def predicting_rows(classifier, X):
        now[0] += X.shape[0] / 10
        return predict(classifier, X)

    monkeypatch.setattr(predicting, "_read_whole", reading)
    monkeypatch.setattr(predicting, "classes_and_probabilities", predicting_rows)
    monkeypatch.setattr(predicting, "_batch_rows", lambda width: 10)
    monkeypatch.setattr(predicting.time, "perf_counter", lambda: now[0])
    found = evaluate("m", "known.csv", progress=lambda share, what: told.append((share, what)))
    n = len(XT)
    shares = [0.0, *((6 + min(n, 10 * k) / 10) / (6 + n / 10) for k in range(1, -(-n // 10) + 1))]
    assert [share for share, _ in told] == pytest.approx(shares)
    assert told[0][1] == "reading"
    monkeypatch.undo()
    monkeypatch.chdir(files)
    assert evaluate("m", "known.csv").accuracy == found.accuracy
    chosen = label("m", "t.csv", 3, progress=lambda share, what: told.append((share, what)))
    assert len(chosen.rows) == 3


def test_what_the_first_rows_cost_tells_the_share_while_a_file_is_read(files, monkeypatch):
    """Ten of 45 rows take 2 s to read and each row 0.1 s to predict: 2 of 2 · 46 / 10 + 4.6 s."""
    now, told = [0.0], []
    write(files / "known.csv", XT, WORDS[YT])
    read = formats.read_batches

    def reading(*args, **kwargs):
        for part in read(*args, rows=10, **kwargs):
            now[0] += 2.0
            yield part

    def predicting_rows(classifier, X):
        now[0] += X.shape[0] / 10
        return predict(classifier, X)

    predict = predicting.classes_and_probabilities
    monkeypatch.setattr(formats, "read_batches", reading)
    monkeypatch.setattr(predicting, "classes_and_probabilities", predicting_rows)
    monkeypatch.setattr(predicting.time, "perf_counter", lambda: now[0])
    evaluate("m", "known.csv", progress=lambda share, what: told.append((share, what)))
    lines = len(XT) + 1
    shares = {what: share for share, what in told if what.endswith("rows read")}
    assert [*shares] == [f"{min(n, len(XT))} rows read" for n in range(10, len(XT) + 10, 10)]
    assert shares["10 rows read"] == pytest.approx(2 / (0.2 * lines + 0.1 * lines))
    assert [*shares.values()] == sorted(shares.values())
