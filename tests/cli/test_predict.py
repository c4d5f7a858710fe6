"""``marda predict`` as a user calls it."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marda import DSCM, MDA, MDAClassifier, MDAClassifierCV, cli, load, pack

pytestmark = pytest.mark.usefixtures("few_draws")

COLUMNS = "id,reading1,reading2,reading3,reading4,reading5,reading6"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a model of the default, and files that fit it or do not."""
    tmp_path = tmp_path_factory.mktemp("made")
    given = "--source sample:source --target sample:target --label y --id id"
    assert cli.main(["adapt", *given.split(), "--model", str(tmp_path / "m.marda")]) == 0
    row = "n1,1,2,3,4,5,6\n"
    contents = {
        "good.csv": f"{COLUMNS}\n{row}",
        "turned.csv": "reading6,reading5,reading4,reading3,reading2,reading1\n6,5,4,3,2,1\n",
        "lost.csv": "reading1,reading2\n1,2\n",
        "gap.csv": f"{COLUMNS}\n{row}n2,1,2,,4,5,6\n",
        "word.csv": f"{COLUMNS}\nn1,1,2,x,4,5,6\n",
        "infinite.csv": f"{COLUMNS}\nn1,1,2,inf,4,5,6\n",
        "norows.csv": f"{COLUMNS}\n",
        "late.csv": f"{COLUMNS}\n" + row * 60_000 + "n2,1\n",
    }
    for name, text in contents.items():
        (tmp_path / name).write_text(text)
    raw = (tmp_path / "m.marda").read_bytes()
    (tmp_path / "cut.marda").write_bytes(raw[:-5])
    (tmp_path / "folder").mkdir()
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    MDA("S1").fit(X).save(tmp_path / "mda.marda")
    DSCM().fit(X, y).save(tmp_path / "dscm.marda")
    np.savez(tmp_path / "wide.npz", X=X)
    return tmp_path


@pytest.fixture
def files(made, tmp_path, monkeypatch):
    """A copy of it is the current folder; the names there."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return set(os.listdir(tmp_path))


def call(*args):
    return cli.main(["predict", *args])


def test_help_fits_a_screen_and_its_example_works_as_pasted(capsys, tmp_path, monkeypatch):
    assert cli.main(["predict", "--help"]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 24
    assert max(map(len, text.splitlines())) <= 96
    monkeypatch.chdir(tmp_path)
    for line in text.split("example:\n")[1].strip().splitlines():
        assert cli.main(line.split()[1:]) == 0
    assert sorted(os.listdir(tmp_path)) == ["m.marda", "p.csv"]


def test_columns_in_any_order(files, tmp_path, capsys):
    assert call("--model", "m.marda", "--input", "good.csv", "--out", "a.csv") == 0
    assert "1 row in" in capsys.readouterr().out
    assert call("--model", "m.marda", "--input", "turned.csv", "--out", "b.csv", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 1
    a, b = ((tmp_path / n).read_text().splitlines()[1].split(",") for n in ("a.csv", "b.csv"))
    assert a[0] == "n1"
    assert b[0] == "1"
    assert a[1:] == b[1:]


@pytest.mark.parametrize("named", [False, True])
def test_a_model_that_chose_by_itself(named, tmp_path, monkeypatch, capsys):
    """An ensemble saved from Python, on a table (columns by name) or on a matrix."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = np.array(["no", "yes"], dtype=object)[np.arange(60) % 2]
    Xs, Xt = (rng.normal((y == "yes")[:, None] + shift, 0.6, (60, 3)) for shift in (0, 1))
    X, labels, domain = pack(Xs, y, Xt)
    rows = pd.DataFrame(X, columns=["a", "b", "c"]) if named else X
    model = MDAClassifierCV(random_state=0).fit(rows, labels, sample_domain=domain)
    model.save("auto.marda")
    if named:
        pd.DataFrame(Xt[:, ::-1], columns=["c", "b", "a"]).to_csv("new.csv", index=False)
    else:
        np.savez("new.npz", X=Xt)
    new = "new.csv" if named else "new.npz"
    assert call("--model", "auto.marda", "--input", new, "--out", "p.csv") == 0
    told = pd.read_csv("p.csv")
    again = load("auto.marda")
    seen = rows[60:]
    assert told["prediction"].tolist() == again.predict(seen).tolist()
    P = told[["probability_no", "probability_yes"]].to_numpy()
    np.testing.assert_allclose(P, model.predict_proba(seen), atol=1e-6)
    assert "60 rows" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "required: --model, --input, --out"),
        ("--model no.marda --input good.csv --out p.csv", "no.marda"),
        ("--model good.csv --input good.csv --out p.csv", "not a marda model file"),
        ("--model cut.marda --input good.csv --out p.csv", "damaged (it ends early)"),
        ("--model mda.marda --input good.csv --out p.csv", "holds MDA"),
        ("--model dscm.marda --input good.csv --out p.csv", "holds DSCM"),
        ("--model m.marda --input no.csv --out p.csv", "no.csv"),
        ("--model m.marda --input lost.csv --out p.csv", "lost.csv has no columns 'reading3', 're"),
        ("--model m.marda --input gap.csv --out p.csv", "missing values in 'reading3' (1 row)"),
        ("--model m.marda --input word.csv --out p.csv", "'reading3' must hold numbers, got 'x'"),
        ("--model m.marda --input infinite.csv --out p.csv", "holds infinity"),
        ("--model m.marda --input norows.csv --out p.csv", "has no rows"),
        ("--model m.marda --input late.csv --out p.csv", "line 60002: 2 fields"),
        ("--model m.marda --input wide.npz --out p.csv", "has no columns 'reading1'"),
        ("--model m.marda --input good.csv --out p.txt", ".csv, .tsv or .parquet"),
        ("--model m.marda --input good.csv --out good.csv", "would replace an input file"),
        ("--model m.marda --input good.csv --out folder/x/../../good.csv/p.csv", "good.csv"),
        ("--model m.marda --input good.csv --out p.csv --id key", "no column 'key'"),
        ("--model m.marda --input good.csv --out p.csv --format npz", "cannot be read as npz"),
        ("--model folder --input good.csv --out p.csv", "folder"),
    ],
)
def test_wrong_calls_leave_one_line_and_no_file(files, arguments, words, refused, tmp_path):
    refused(["predict", *arguments.split()], words, "marda predict: ")
    found = {name for name in os.listdir(tmp_path) if name != "folder"}
    assert found == files - {"folder"}


def test_an_interrupt_leaves_no_file(files, tmp_path, monkeypatch, capsys):
    def stop(self, X):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(load("m.marda")), "predict_proba", stop)
    assert call("--model", "m.marda", "--input", "good.csv", "--out", "p.csv") == 130
    assert set(os.listdir(tmp_path)) == files


def test_standard_input_and_output(tmp_path, monkeypatch, capsysbinary):
    monkeypatch.chdir(tmp_path)
    given = ("--source", "sample:source", "--target", "sample:target", "--label", "y", "--id", "id")
    assert cli.main(["adapt", *given, "--method", "BL", "--model", "m", "--out", "a.csv"]) == 0
    assert cli.main(["adapt", *given, "--method", "BL", "--out", "-"]) == 0
    capsysbinary.readouterr()
    header = "id," + ",".join(f"reading{k}" for k in range(1, 7))
    rows = f"{header}\nr1,1,2,3,4,5,6\nr2,0,0,0,0,0,0\n"
    Path("new.csv").write_text(rows)
    assert cli.main(["predict", "--model", "m", "--input", "new.csv", "--out", "p.csv"]) == 0
    capsysbinary.readouterr()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(rows.encode()))))
    assert cli.main(["predict", "--model", "m", "--input", "-", "--out", "-"]) == 0
    out, err = capsysbinary.readouterr()
    assert out == Path("p.csv").read_bytes()
    assert b"standard output" in err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert cli.main(["predict", "--model", "m", "--input", "-", "--out", "-"]) == 2
    out, err = capsysbinary.readouterr()
    assert out == b""
    assert err == b"marda predict: standard input is empty.\n"


def test_columns_that_moved_each_score(files, tmp_path, capsys):
    wide = f"{COLUMNS}\n" + "".join(f"n{k},{k},2,3,4,5,{6 - k}\n" for k in range(4))
    (tmp_path / "four.csv").write_text(wide)
    call("--model", "m.marda", "--input", "four.csv", "--out", "p.csv", "--explain")
    assert "sampled (10 orders)" in capsys.readouterr().out
    told = pd.read_csv("p.csv")
    pairs = [f"{what}_{k}" for k in (1, 2, 3) for what in ("moved_by", "moved")]
    assert told.columns[-6:].tolist() == pairs
    assert told["moved_by_1"].str.startswith("reading").all()
    assert (told["moved_1"].abs() >= told["moved_2"].abs()).all()
    # A row alone is explained as it is among others: from the mean row of the model file.
    call("--model", "m.marda", "--input", "good.csv", "--out", "a.csv", "--explain", "9")
    alone = pd.read_csv("a.csv")
    assert "moved_6" in alone
    assert "moved_7" not in alone


def test_a_linear_model_is_explained_exactly(files, tmp_path, capsys):
    source, target = "--source sample:source", "--target sample:target"
    adapt = f"adapt {source} {target} --label y --id id --method S1 --model s1.marda"
    assert cli.main(adapt.split()) == 0
    capsys.readouterr()
    assert call("--model", "s1.marda", "--input", "good.csv", "--out", "p.csv", "--explain",
                "6", "--json") == 0  # fmt: skip
    assert json.loads(capsys.readouterr().out)["explained"] == "exact"
    told = pd.read_csv("p.csv").iloc[0]
    model = load("s1.marda")
    x = np.arange(1.0, 7.0)
    step = (x - model.preprocessing_["means"]) * model.coef_[0]
    step *= 1 if told["prediction"] == model.classes_[1] else -1
    moved = {told[f"moved_by_{k}"]: told[f"moved_{k}"] for k in range(1, 7)}
    expected = {f"reading{k}": step[k - 1] for k in range(1, 7)}
    assert moved == pytest.approx(expected, rel=1e-4)


def test_words_and_categories_are_parts(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = [("good fine nice", "red", "yes"), ("bad poor sad", "blue", "no")]
    rows = [(*words[k % 2], k % 2) for k in range(40)]
    for name in ("s.csv", "t.csv"):
        pd.DataFrame([r[:3] for r in rows], columns=["text", "colour", "y"]).to_csv(
            name, index=False
        )
    pd.DataFrame([r[:2] for r in rows], columns=["text", "colour"]).to_csv("t.csv", index=False)
    files = "--source s.csv --target t.csv --label y --text text --keep colour --method S1"
    assert cli.main(f"adapt {files} --model m".split()) == 0
    assert call("--model", "m", "--input", "t.csv", "--out", "p.csv", "--explain", "8") == 0
    told = pd.read_csv("p.csv").iloc[0]
    moved = {told[f"moved_by_{k}"] for k in range(1, 9) if f"moved_by_{k}" in told}
    assert {name for name in moved if isinstance(name, str)} == {
        "text:fine", "text:good", "text:nice", "colour"
    }  # fmt: skip


def test_models_without_a_mean_row_take_that_of_the_file(tmp_path, monkeypatch, capsys, refused):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    MDAClassifier("S1").fit(X, y).save("m")
    np.savez("many.npz", X=X)
    np.savez("one.npz", X=X[:1])
    assert call("--model", "m", "--input", "many.npz", "--out", "p.csv", "--explain") == 0
    capsys.readouterr()
    call_one = ["predict", "--model", "m", "--input", "one.npz", "--out", "q.csv", "--explain"]
    refused(call_one, "has no mean row that scores could be explained from", "marda predict: ")
    refused([*call_one, "0"], "a whole number of at least 1", "marda predict: ")
