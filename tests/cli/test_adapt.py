"""``marda adapt`` as a user calls it."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from marda import cli

pytestmark = pytest.mark.usefixtures("few_draws")

ROWS = "id,a,b,c,y\n" + "".join(
    f"r{k},{k % 2 + 0.1 * k},{k % 3},{'uv'[k % 2]},{'pq'[k % 2]}\n" for k in range(40)
)
TARGET = "id,b,a,c\n" + "".join(f"t{k},{k % 3},{k % 2 + 1},{'uv'[k % 2]}\n" for k in range(30))


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Two good files and several bad ones, in the current folder."""
    monkeypatch.chdir(tmp_path)
    contents = {
        "s.csv": ROWS,
        "t.csv": TARGET,
        "gap.csv": TARGET.replace("t3,0,", "t3,,"),
        "short.csv": TARGET.replace("id,b,a,c", "id,b,q,c"),
        "word.csv": TARGET.replace("t3,0,", "t3,many,"),
        "ragged.csv": TARGET + "1,2\n",
        "empty.csv": "",
        "one.csv": ROWS.replace(",q\n", ",p\n"),
        "holes.csv": ROWS.replace(",q\n", ",\n"),
        "other.csv": TARGET.replace("id,b,a,c", "id,b,a,c,y")
        .replace("u\n", "u,z\n")
        .replace("v\n", "v,\n"),
        "x.parquet": "not parquet",
    }
    for name, text in contents.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "latin.csv").write_bytes(b"a,y\n\xe9,1\n")
    (tmp_path / "folder").mkdir()
    return set(os.listdir(tmp_path))


def call(*args):
    return cli.main(["adapt", *args])


GOOD = ("--source", "s.csv", "--target", "t.csv", "--label", "y")


def test_help_fits_a_screen_and_its_example_works_as_pasted(capsys, tmp_path, monkeypatch):
    assert cli.main(["adapt", "--help"]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 24
    assert max(map(len, text.splitlines())) <= 96
    monkeypatch.chdir(tmp_path)
    example = text.split("example:\n")[1].split()
    assert example[0] == "marda"
    assert cli.main(example[1:]) == 0
    assert os.listdir(tmp_path) == ["m.marda"]


def test_text_for_people(files, capsys, tmp_path):
    assert call(*GOOD, "--id", "id", "--out", "p.csv", "--model", "m.marda") == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "auto (US: no labels in the target)" in out
    assert "A-distance" in out
    assert "written: p.csv" in out
    assert set(os.listdir(tmp_path)) == files | {"p.csv", "m.marda"}
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert lines[0] == "id,prediction,probability,probability_p,probability_q"
    assert len(lines) == 31


def test_json_for_machines(files, capsys):
    assert call(*GOOD, "--id", "id", "--json") == 0
    out, err = capsys.readouterr()
    assert err == ""
    result = json.loads(out)
    assert result["setting"] == "US"
    assert result["rows"] == {"source": 40, "target": 30, "labelled_target": 0}
    assert result["classes"] == ["p", "q"]
    assert set(result["diagnosis"]) >= {"verdict", "findings", "mmd_before", "a_distance_after"}


def test_warnings_are_printed(files, capsys, tmp_path):
    rng = np.random.default_rng(0)
    for name, low in (("a.csv", 0), ("b.csv", 1000)):
        lines = [f"{low + k},{rng.normal() * 1e-5},{k % 2}" for k in range(30)]
        (tmp_path / name).write_text("number,x,y\n" + "\n".join(lines) + "\n")
    given = ("--source", "a.csv", "--target", "b.csv", "--label", "y", "--keep", "number")
    for method in ("auto", "S1D"):
        assert call(*given, "--method", method) == 0
        out = capsys.readouterr().out
        assert "warning: 'number' alone tells source from target" in out
        assert ("use --scale standard" in out) == (method == "S1D")  # auto compares scales itself


@pytest.mark.parametrize("options", [("--scale", "standard"), ("--missing", "impute")])
def test_options_that_mend(files, capsys, options):
    target = "gap.csv" if "impute" in options else "t.csv"
    arguments = ("--source", "s.csv", "--target", target, "--label", "y", "--id", "id")
    assert call(*arguments, *options) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "required: --source, --target, --label"),
        ((*GOOD, "--colour"), "unrecognized arguments"),
        ((*GOOD, "--format", "xls"), "invalid choice: 'xls'"),
        ((*GOOD, "--noise", "x"), "invalid float value"),
        ((*GOOD, "--id", "id", "--noise", "1.5"), "dropout probability in [0, 1), got 1.5"),
        ((*GOOD, "--id", "id", "--method", "S3"), "S3"),
        ((*GOOD, "--id", "id", "--method", "S1C"), "label"),
        ((*GOOD, "--classifier", "svm"), "invalid choice"),
        ((*GOOD, "--out", "p.xls"), ".csv, .tsv or .parquet"),
        ((*GOOD, "--out", "s.csv"), "would replace an input file"),
        ((*GOOD, "--id", "id", "--out", "p.csv", "--model", "p.csv"), "both name p.csv"),
        ((*GOOD, "--id", "id", "--model", "folder"), "is a folder"),
        ((*GOOD, "--id", "id", "--out", "p.csv", "--model", "s.csv/m"), "s.csv"),
        ((*GOOD, "--id", "key"), "no column 'key'"),
        ((*GOOD, "--keep", "id"), "column 'id' has 70 different words in 70 rows"),
        ((*GOOD, "--keep", "ids"), "no column 'ids' (did you mean 'id'?)"),
        ((*GOOD, "--drop", '"a'), "is no list of columns"),
        ((*GOOD, "--dates", "first"), "--dates first: choose from day-first, month-first"),
        ((*GOOD, "--encoding", "utf-9"), "--encoding utf-9: there is no such encoding"),
        ((*GOOD, "--encoding", "a,b,c"), "--encoding has 3 values for 2 files"),
        (("--source", "https://example.org/s.csv", *GOOD[2:]), "https://example.org/s.csv is an"),
        (("--source", "-", "--target", "-", *GOOD[4:]), "standard input (-) can be one file only"),
        ((*GOOD, "--out", "-", "--json"), "both write to standard output"),
        ((*GOOD[:4], "--label", "z"), "s.csv has no column 'z'"),
        (("--source", "no.csv", *GOOD[2:]), "no.csv"),
        (("--source", "folder", *GOOD[2:]), "is a folder"),
        (("--source", "empty.csv", *GOOD[2:]), "empty.csv is empty"),
        (("--source", "latin.csv", *GOOD[2:]), "one class only, 1.0"),
        (("--source", "one.csv", *GOOD[2:], "--id", "id"), "one class only, 'p'"),
        (("--source", "holes.csv", *GOOD[2:], "--id", "id"), "20 source rows have no label"),
        (("--source", "x.parquet", *GOOD[2:]), "is not parquet, though its name"),
        (
            (*GOOD[:3], "gap.csv", *GOOD[4:], "--id", "id"),
            "missing values in 'b' (1 row)",
        ),
        ((*GOOD[:3], "short.csv", *GOOD[4:], "--id", "id"), "has no column 'a'"),
        ((*GOOD[:3], "ragged.csv", *GOOD[4:]), "ragged.csv, line 32: 2 fields"),
        ((*GOOD[:3], "other.csv", *GOOD[4:], "--id", "id"), "label 'z'"),
        (("--source", "sample:x", *GOOD[2:]), "samples are"),
    ],
)
def test_wrong_calls_leave_one_line_and_no_file(files, arguments, words, refused, tmp_path):
    if not {"--out", "--model"} & set(arguments):
        arguments = (*arguments, "--out", "p.csv", "--model", "m.marda")
    refused(["adapt", *arguments], words)
    assert set(os.listdir(tmp_path)) == files


def test_from_a_shell(files, tmp_path):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-m", "marda", "adapt", *GOOD, "--id", "id", "--out", "p.csv"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")  # quiet: not a terminal


def test_files_of_other_programs_and_damaged_ones_are_one_line(files, capsys):
    with zipfile.ZipFile("book.xlsx", "w") as out:
        out.writestr("xl/workbook.xml", "<workbook/>")
    with zipfile.ZipFile("rows.zip", "w") as out:
        out.writestr("s.csv", ROWS)
        out.writestr("t.csv", TARGET)
    np.savez_compressed("a.npz", X=np.arange(200.0).reshape(40, 5), y=np.arange(40) % 2)
    scipy.io.savemat("a.mat", {"X": np.arange(200.0).reshape(40, 5)}, do_compression=True)
    for name, at in (("a.npz", 100), ("a.mat", 300), ("g.csv.gz", 60)):
        if name.endswith("gz"):
            Path(name).write_bytes(gzip.compress(ROWS.encode(), mtime=0))
        data = bytearray(Path(name).read_bytes())
        data[at] ^= 0xFF
        Path(name).write_bytes(data)
    for name in ("book.xlsx", "rows.zip", "a.npz", "a.mat", "g.csv.gz"):
        for source, target in ((name, "t.csv"), ("s.csv", name)):
            assert call("--source", source, "--target", target, "--label", "y") == 2, name
            error = capsys.readouterr().err
            assert error.count("\n") == 1
            assert name in error
            assert "MARDA_DEBUG" not in error  # as after an error that nobody foresaw


@pytest.mark.slow
def test_a_device(files, capsys, refused, monkeypatch, tmp_path):
    """Through torch the predictions are the same, and the model is of numpy."""
    if os.environ.get("MARDA_REQUIRE_TORCH") != "1":
        pytest.importorskip("array_api_compat")
        pytest.importorskip("torch")
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    for name, device in (("here", ()), ("there", ("--device", "cpu"))):
        for method in ("auto", "S1D"):
            out = ("--method", method, "--out", f"{name}-{method}.csv")
            assert call(*GOOD, *out, "--model", f"{name}-{method}.marda", *device) == 0
    for method in ("auto", "S1D"):
        here, there = (
            np.genfromtxt(tmp_path / f"{name}-{method}.csv", delimiter=",", skip_header=1)[:, 1:]
            for name in ("here", "there")
        )
        np.testing.assert_allclose(there, here, atol=1e-6)
    capsys.readouterr()
    saved = ("--model", "there-auto.marda", "--input", "t.csv", "--out", "p.csv")
    assert cli.main(["predict", *saved]) == 0
    capsys.readouterr()
    refused(("adapt", *GOOD, "--device", "cuda:77"), "--device cuda:77 is not here: torch has cpu")
    refused(("adapt", *GOOD, "--device", "oven"), "--device oven is not here")
    monkeypatch.setattr("marda.adaptation.methods.available_memory", lambda: 100)
    refused(("adapt", *GOOD, "--device", "cpu"), "has 0.1 kB free, and 70 rows × 2 columns need")


def test_devices_that_cannot_be(files, refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    refused(("adapt", *GOOD, "--device", "cuda"), "--device needs torch: run pip install torch")
    refused(("adapt", "--moments", "m.npz", "--device", "cuda"), "--moments and --device exclude")
