import csv
import os
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from marda import Moments, cli
from marda.cli import moments
from marda.moments.files import read
from problems import make_case, moments_of

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def words_of(call):
    return call.split()


@pytest.fixture
def hospitals(tmp_path, monkeypatch):
    """Three owners' files in the current folder."""
    case = make_case("US", sources=2, seed=1)
    monkeypatch.chdir(tmp_path)
    for number, name in ((0, "a"), (1, "b"), (-1, "t")):
        rows = case.domain == number
        table = {f"f{i}": case.X[rows, i] for i in range(6)}
        if number >= 0:
            table["y"] = case.codes[rows]
        pq.write_table(pa.table(table), f"{name}.parquet", row_group_size=5)
    return case


def build(name, *more):
    role = ("--role", "target") if name == "t" else ("--label", "y")
    return cli.main(
        ["moments", "build", f"{name}.parquet", "--domain", name, *role, "-o", f"{name}.m", *more]
    )


def test_build_merge_show(hospitals, capsys):
    for name in "abt":
        assert build(name) == 0
    assert "a.m: 18 rows, 6 columns (f0, f1, f2, f3, f4, f5)" in capsys.readouterr().out
    assert cli.main(["moments", "merge", "a.m", "b.m", "t.m", "-o", "all.m"]) == 0
    capsys.readouterr()
    assert cli.main(["moments", "show", "all.m"]) == 0
    text = capsys.readouterr().out
    assert "64 rows" in text
    assert "labels: 0, 1, 2" in text
    assert "source b, label 2: 6 rows" in text
    assert "target t, no label: 28 rows" in text
    merged, direct = Moments.load("all.m"), moments_of(hospitals)
    np.testing.assert_allclose(merged.shifted(direct.shift).gram, direct.gram, rtol=1e-10)
    assert merged.domain_names == {0: "a", 1: "b", -1: "t"}


def test_merged_files_promise_what_all_their_parts_promise(hospitals):
    """Groups only grow, so the smallest promise holds; `--min-group` asks for another."""
    merge = ["moments", "merge", "a.m", "b.m", "t.m", "-o"]
    for name, least in (("a", "6"), ("b", "4"), ("t", "28")):
        assert build(name, "--min-group", least) == 0
    assert cli.main([*merge, "kept.m"]) == 0
    assert cli.main([*merge, "asked.m", "--min-group", "5"]) == 0
    assert read("kept.m")[1]["min_group"] == 4
    assert read("asked.m")[1]["min_group"] == 5
    assert cli.main([*merge, "none.m", "--min-group", "7"]) == 2
    assert not os.path.exists("none.m")


def test_options_of_build(hospitals, capsys):
    assert (
        build(
            "a", "--features", "f1,f0", "--classes", "0,1,2,3", "--class-grams", "--memory", "1MB"
        )
        == 0
    )
    moments = Moments.load("a.m")
    assert moments.feature_names.tolist() == ["f1", "f0"]
    assert moments.classes.tolist() == [0, 1, 2, 3]
    assert moments.class_grams.shape == (4, 2, 2)
    assert build("b", "--min-group", "6", "--checkpoint", "go", "--memory", "30%") == 0
    assert "groups of at least 6 rows; the smallest has 6" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["moments"], "required: {build,sql,read,merge,show}"),
        (["moments", "read", "a.parquet", "-o", "x"], "not a result of marda moments sql"),
        (
            words_of("moments sql --table t --features a,a --domain d"),
            "column 'a' is named twice",
        ),
        (["moments", "weigh"], "invalid choice: 'weigh'"),
        (["moments", "show", "none"], "marda moments show: none: No such file"),
        (["moments", "show", "a.parquet"], "a.parquet: not a moments file."),
        (["moments", "merge", "a.m", "a.parquet", "-o", "x"], "a.parquet: not a moments file."),
        (["moments", "merge", "a.m", "./a.m", "-o", "x"], "./a.m is named twice, also as a.m"),
        (["moments", "merge", "a.m", "odd.m", "-o", "x"], "odd.m: cannot be merged with a.m: "),
        (["moments", "build", "none", "--domain", "a", "-o", "x"], "none: no such file."),
        (["moments", "build", "a.m", "--domain", "a", "-o", "x"], "a.m cannot be read as Parquet"),
        (["moments", "build", "a.parquet", "-o", "x"], "required: --domain"),
        (
            words_of("moments build a.parquet --domain a --label z -o x"),
            "a.parquet: no column 'z' for the label",
        ),
        (
            words_of("moments build a.parquet --domain a --label y --min-group 7 -o x"),
            "x: not written: domain a, label 0 has 6 rows",
        ),
        (
            words_of("moments build a.parquet --domain a --label y --classes 0,b -o x"),
            "column 'y' holds int64, and classes are '0,b'",
        ),
        (words_of("moments build a.parquet --domain a --classes 0 -o x"), "without a label column"),
        (words_of("moments build a.parquet --domain a --memory much -o x"), "a size such as 4GB"),
        (words_of("moments build a.parquet --domain a -o no/x"), "No such file"),
    ],
)
def test_wrong_calls(hospitals, call, words, capsys, refused):
    build("a")
    build("b", "--features", "f0,f1")
    os.rename("b.m", "odd.m")
    capsys.readouterr()
    refused(call, words, "marda moments")
    assert not os.path.exists("x")


@pytest.mark.parametrize("part", ["build", "sql", "read", "merge", "show"])
def test_help_of_the_parts(part, capsys):
    assert cli.main(["moments", part, "--help"]) == 0
    text = capsys.readouterr().out
    assert "example:" in text
    assert len(text.splitlines()) <= 24
    example = text.split("example:\n")[1].split()
    assert cli.parser().parse_args(example[1:]).what == part


def test_sql_and_back(tmp_path, monkeypatch, capsys):
    """The printed query, run in a database, gives a moments file."""
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect(":memory:")) as base:
        base.execute("CREATE TABLE visits (age, dose, y)")
        base.executemany(
            "INSERT INTO visits VALUES (?, ?, ?)", [(30, 1.5, "ill"), (40, 2.5, "well")]
        )
        call = "moments sql --table visits --features age,dose --label y --domain a"
        assert cli.main(call.split()) == 0
        found = base.execute(capsys.readouterr().out)
        with open("a.csv", "w", newline="") as stream:
            csv.writer(stream).writerows([[c[0] for c in found.description], *found])
    assert cli.main(["moments", "read", "a.csv", "-o", "a.m"]) == 0
    assert "source a, label ill: 1 row\n" in capsys.readouterr().out
    assert Moments.load("a.m").means().tolist() == [[30, 1.5], [40, 2.5]]


def test_the_dialects_are_those_of_the_library():
    from marda.moments.sql import DIALECTS

    assert tuple(DIALECTS) == moments.DIALECTS
