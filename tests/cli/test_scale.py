"""``marda adapt`` beyond memory, as a user calls it: statistics, batches, clusters, kill -9."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import marda
from adaptation.tables import rows, table_of, write_pair
from marda import cli
from measured import KILLED_WHILE_WRITING

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FILES = ("--source", "s.parquet", "--target", "t.parquet", "--label", "y", "--id", "id")
SMALL = ("--memory", "1kB")
#: The default draws a sample and has no checkpoint.
NAMED = (*SMALL, "--method", "S1D")
FEATURES = ",".join(f"f{i}" for i in range(6))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with two Parquet files and the statistics of both."""
    folder = tmp_path_factory.mktemp("made")
    write_pair(folder)
    for name, more in (("s", ("--label", "y")), ("t", ("--role", "target"))):
        build = ("moments", "build", str(folder / f"{name}.parquet"), "--domain", name)
        out = ("--features", FEATURES, "-o", str(folder / f"{name}.moments"))
        assert cli.main([*build, *more, *out]) == 0
    return folder


@pytest.fixture
def here(made, tmp_path, monkeypatch, capsys):
    """A copy of it, which is the current folder."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    return tmp_path


def shell(*args, folder, start=("-m", "marda")):
    """The command in a process of its own."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    call = [sys.executable, *start, "adapt", *args]
    return subprocess.run(call, cwd=folder, env=env, capture_output=True, text=True, check=False)


def assert_as_in_memory(model="m.marda", out="p.csv", method="S1D"):
    """The model and the predictions of rows in memory."""
    held = ("--out", "held.csv", "--model", "held.marda", "--method", method)
    assert cli.main(["adapt", *FILES, *held]) == 0
    ours, theirs = marda.load(model), marda.load("held.marda")
    assert ours.classes_.tolist() == theirs.classes_.tolist()
    assert np.abs(ours.coef_ - theirs.coef_).max() < 1e-9 * np.abs(theirs.coef_).max()
    lines = [Path(path).read_text(encoding="utf-8").splitlines() for path in (out, "held.csv")]
    for a, b in zip(*lines, strict=True):
        one, two = a.split(","), b.split(",")
        assert one[:2] == two[:2]
        if one[0] != "id":
            np.testing.assert_allclose([float(v) for v in one[2:]], [float(v) for v in two[2:]])
    os.remove("held.csv")
    os.remove("held.marda")


def test_statistics_files_alone(here, capsys):
    statistics = ("--moments", "s.moments", "t.moments", "--method", "S1D")
    before = set(os.listdir())
    assert cli.main(["adapt", *statistics, "--model", "m.marda"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "rows       300 source, 200 target; 6 features" in out
    assert "source     s: 300 rows (cat: 33%, dog: 33%, emu: 33%)" in out
    assert "note: A-distance, MMD" in out
    assert set(os.listdir()) == before | {"m.marda"}
    # New rows by the names of their columns, in any order, from text too.
    X, _ = rows(200, shift=0.7, seed=2)
    names = [f"f{i}" for i in reversed(range(6))]
    lines = [f"r{k}," + ",".join(map(repr, row[::-1].tolist())) for k, row in enumerate(X)]
    (here / "t.csv").write_text(f"id,{','.join(names)}\n" + "\n".join(lines) + "\n")
    predict = ["predict", "--model", "m.marda", "--input", "t.csv", "--id", "id"]
    assert cli.main([*predict, "--out", "p.csv"]) == 0
    assert_as_in_memory()
    capsys.readouterr()
    assert (
        cli.main(["adapt", *statistics, *FILES[2:4], "--id", "id", "--out", "q.csv", "--json"]) == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert sum(told["predicted"].values()) == 200
    assert told["files"] == ["q.csv"]
    assert any("not calibrated" in note for note in told["notes"])
    assert (here / "q.csv").read_text().splitlines()[1].split(",")[:2] == (
        (here / "p.csv").read_text().splitlines()[1].split(",")[:2]
    )


def test_scaled_statistics_and_a_default_method(here, capsys):
    statistics = ("--moments", "s.moments", "t.moments", "--scale", "standard")
    assert cli.main(["adapt", *statistics, "--model", "m.marda"]) == 0
    assert "note: no --method was named: S1D is used" in capsys.readouterr().out
    held = ("--scale", "standard", "--method", "S1D", "--model", "held.marda")
    assert cli.main(["adapt", *FILES, *held]) == 0
    ours, theirs = marda.load("m.marda"), marda.load("held.marda")
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-9)


def test_files_over_memory_are_read_in_batches(here, capsys):
    before = set(os.listdir())
    assert cli.main(["adapt", *FILES, *NAMED, "--out", "p.csv", "--model", "m.marda"]) == 0
    out, err = capsys.readouterr()
    assert err.splitlines() == [
        "marda adapt: the rows take 24 kB, more than the 1 kB that rows may take (--memory), so "
        "they are read in batches.",
        "marda adapt: killed and started again, this continues from m.marda.checkpoint.",
    ]
    assert "note: the rows take 24 kB" in out
    assert set(os.listdir()) == before | {"p.csv", "m.marda"}
    assert_as_in_memory()


def test_killed_and_started_again(here, capsys):
    before = set(os.listdir())
    call = (*FILES, *NAMED, "--out", "p.csv", "--model", "m.marda")
    killed = shell(*call, folder=here, start=("-c", KILLED_WHILE_WRITING))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (here / "m.marda").exists()
    assert len(set(os.listdir()) - before) == 2  # the checkpoint, and the next one half written
    assert cli.main(["adapt", *call]) == 0
    told = "continued after 3 of 20 row groups, from m.marda.checkpoint."
    assert told in capsys.readouterr().out
    # A writer that was killed left nothing either.
    assert set(os.listdir()) == before | {"p.csv", "m.marda"}
    assert_as_in_memory()


def test_other_files_start_over_and_say_so(here, monkeypatch, capsys):
    from marda.adaptation import stream

    call = ["adapt", *FILES, *NAMED, "--out", "p.csv", "--model", "m.marda"]
    with monkeypatch.context() as patch:
        patch.setattr(stream, "fit_statistics", lambda *a, **k: 1 / 0)
        assert cli.main(call) == 1
    assert (here / "m.marda.checkpoint").exists()
    X, _ = rows(800, shift=0.9, seed=5)
    pq.write_table(table_of(X), here / "t.parquet", row_group_size=500)
    assert cli.main(call) == 0
    told = "m.marda.checkpoint: this checkpoint was made from other files, so the rows are"
    assert told in capsys.readouterr().err
    assert_as_in_memory()


def test_another_method_after_a_failure_reads_no_rows_again(here, monkeypatch, capsys):
    from marda.adaptation import stream
    from marda.moments.parquet import ParquetRows

    call = ["adapt", *FILES, *NAMED, "--model", "m.marda"]
    with monkeypatch.context() as patch:
        patch.setattr(stream, "fit_statistics", lambda *a, **k: 1 / 0)
        assert cli.main(call) == 1
    assert (here / "m.marda.checkpoint").exists()
    monkeypatch.setattr(ParquetRows, "batches", lambda *a: pytest.fail("a row group was read"))
    assert cli.main([*call, "--method", "S1"]) == 0
    assert "continued after 20 of 20 row groups" in capsys.readouterr().out
    assert not (here / "m.marda.checkpoint").exists()


def test_a_checkpoint_that_is_none_is_left_alone(here, capsys):
    (here / "m.marda.checkpoint").write_text("my notes")
    assert cli.main(["adapt", *FILES, *NAMED, "--model", "m.marda"]) == 2
    assert "m.marda.checkpoint: not a moments file" in capsys.readouterr().err
    assert (here / "m.marda.checkpoint").read_text() == "my notes"


def test_workers_of_a_scheduler(here):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, processes=False, protocol="tcp://", dashboard_address=":0"
    ) as cluster:
        scheduler = ("--scheduler", cluster.scheduler_address, "--method", "S1D")
        call = (*FILES, *scheduler, "--model", "m.marda")
        done = shell(*call, "--out", "p.csv", folder=here)
    assert done.returncode == 0, done.stderr
    assert_as_in_memory()


@pytest.mark.slow
def test_a_cluster_on_this_machine(here):
    before = set(os.listdir())
    cluster = ("--cluster", "local", "--method", "S1D")
    call = (*FILES, *cluster, "--out", "p.csv", "--model", "m.marda")
    done = shell(*call, folder=here)
    assert done.returncode == 0, done.stderr
    assert set(os.listdir()) == before | {"p.csv", "m.marda"}
    assert_as_in_memory()


@pytest.mark.slow
def test_no_scheduler_is_one_clear_error_in_time(here):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    begin = time.monotonic()
    done = shell(*FILES, "--scheduler", address, "--model", "m.marda", folder=here)
    assert time.monotonic() - begin < 120  # five seconds, on a machine that is busy as well
    assert done.returncode == 2
    assert done.stderr.startswith("marda adapt: no Dask scheduler answers at ")
    assert done.stderr.count("\n") == 1


def test_without_dask(here, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert cli.main(["adapt", *FILES, "--cluster", "local"]) == 2
    assert "pip install 'marda[dask]'" in capsys.readouterr().err


@pytest.fixture(scope="module")
def misfits(made, tmp_path_factory):
    """A folder of files that do not fit."""
    folder = tmp_path_factory.mktemp("misfits")
    X, y = rows(60)
    for name, table in {
        "words.parquet": table_of(X, y).append_column("w", pa.array(["u"] * 60)),
        "gap.parquet": table_of(np.where(X > 3, np.nan, X)),
        "short.parquet": table_of(X[:, :4]),
        "one.parquet": table_of(X, np.zeros(60, dtype=int)),
        "half.parquet": table_of(X, pa.array([None, "a"] * 30)),
        "other.parquet": table_of(X, ["fox"] * 60),
        "fraction.parquet": table_of(X, X[:, 0]),
        "empty.parquet": table_of(X[:0]),
    }.items():
        pq.write_table(table, folder / name)
    build = ("moments", "build", str(made / "s.parquet"), "--domain")
    two = ("b", "--label", "y", "--features", "f0,f1", "-o", str(folder / "two.moments"))
    assert cli.main([*build, *two]) == 0
    bare = ("bare", "--features", FEATURES, "-o", str(folder / "bare.moments"))
    assert cli.main([*build, *bare]) == 0
    (folder / "cut.moments").write_bytes((made / "s.moments").read_bytes()[:-40])
    return folder


@pytest.fixture
def bad(here, misfits):
    """They lie beside those of `here`."""
    shutil.copytree(misfits, here, dirs_exist_ok=True)
    return set(os.listdir())


def files(source="s.parquet", target="t.parquet"):
    return ("--source", source, "--target", target, "--label", "y", "--id", "id", *SMALL)


BOTH = ("--moments", "s.moments", "t.moments")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*BOTH, "--source", "s.parquet"), "--moments and --source exclude each other"),
        ((*BOTH, "--label", "y"), "--moments and --label exclude each other"),
        ((*BOTH, "--cluster", "local"), "--moments and --cluster exclude each other"),
        ((*BOTH, "--report", "r.html"), "--report shows rows, and statistics files hold no rows"),
        ((*BOTH, "--out", "p.csv"), "--out without --target"),
        ((*BOTH, "--model", "s.moments"), "would replace an input file"),
        ((*BOTH, "--classifier", "nn"), "classifier='nn' needs rows"),
        ((*BOTH, "--method", "auto"), "--method auto needs rows, not statistics alone"),
        ((*BOTH, "--method", "S1C"), "needs labelled target rows"),
        (("--moments", "s.moments"), "no file holds statistics of a target"),
        (("--moments", "t.moments"), "no file holds statistics of a source"),
        (("--moments", "bare.moments", "t.moments"), "source bare has rows without a label"),
        (("--moments", "s.moments", "t.moments", "s.moments"), "s.moments is named twice"),
        (("--moments", "s.moments", "s.parquet"), "s.parquet: not a moments file"),
        (("--moments", "s.moments", "cut.moments"), "cut.moments: truncated"),
        (("--moments", "no.moments"), "no.moments: No such file"),
        (("--moments", "two.moments", "t.moments"), "t.moments: cannot be merged with two.moments"),
        ((*BOTH, "--target", "short.parquet", "--out", "p.csv"), "short.parquet has no columns"),
        ((*files(), "--classifier", "nn"), "classifier='nn' needs rows"),
        ((*files(), "--method", "auto", "--noise", "0.3"), "auto chooses --noise by itself"),
        ((*files(), "--method", "S1C"), "S1C needs labelled target rows"),
        ((*files(), "--report", "r.html"), "--report shows rows, and rows are not held"),
        ((*files(), "--text", "id"), "--text needs all rows in memory"),
        ((*files(), "--missing", "impute"), "--missing impute needs all rows in memory"),
        ((*files(), "--memory", "lots"), "--memory: a size such as 4GB"),
        ((*files(), "--drop", "f9"), "t.parquet has no column 'f9'"),
        ((*files(), "--id", "key"), "t.parquet has no column 'key'"),
        ((*files(), "--out", "p.xls"), ".csv, .tsv or .parquet"),
        ((*files(), "--label", "z"), "s.parquet has no column 'z' (columns: f0, f1"),
        ((*files(), "--scheduler", "a:1", "--cluster", "local"), "exclude each other"),
        (files(target="short.parquet"), "short.parquet has no column 'f4', which s.parquet has"),
        (files(target="gap.parquet"), "gap.parquet: column 'f0' has missing or infinite values"),
        (files(target="other.parquet"), "other.parquet: label 'fox' in column 'y' is no class"),
        (files(target="empty.parquet"), "empty.parquet: no rows"),
        (files("words.parquet", "words.parquet"), "words.parquet: column 'w' holds string"),
        (files(source="one.parquet"), "one class only"),
        (files(source="half.parquet"), "half.parquet: 30 source rows have no label"),
        (files(source="fraction.parquet"), "holds fractions"),
        (files(source="s.moments"), "s.moments"),
    ],
)
def test_wrong_calls_leave_one_line_and_no_file(bad, arguments, words, capsys):
    capsys.readouterr()
    if "--model" not in arguments:
        arguments = (*arguments, "--model", "m.marda")
    assert cli.main(["adapt", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    told = [line for line in err.splitlines() if "read in batches." not in line]
    assert [line for line in told if "killed and started again" not in line] == [
        err.splitlines()[-1]
    ]
    assert "Traceback" not in err
    # Row groups that were summed before a bad one stay in the checkpoint.
    assert set(os.listdir()) - {"m.marda.checkpoint"} == bad
