import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from marda.experiments import store as store_module
from marda.experiments.plan import plan_table
from marda.experiments.rows import ResultRow, failed, git_commit, machine, versions
from marda.experiments.store import Store, StoreError, now

from .fakes import made_row

SPECS = plan_table("us", tasks=["books-dvd"])


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "deep" / "results.sqlite") as opened:
        yield opened


def test_row_survives_the_round_trip(store):
    row = made_row(SPECS[0], params={"noise": 0.9, "ridge": 1e-2}, n_iter=7, message="a\nb")
    assert store.add(row)
    (back,) = store.rows()
    assert back.finished
    assert ResultRow.from_json(row.to_json()) == row
    assert {**vars(back), "finished": ""} == vars(row)


def test_row_says_where_it_was_made(store):
    row = made_row(SPECS[0])
    assert row.versions == versions()
    assert set(row.versions) == {"python", "marda", "numpy", "scipy", "scikit-learn"}
    assert row.machine == machine()
    assert row.commit == git_commit()


def test_wal_mode(store):
    with closing(sqlite3.connect(store.path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_done_once(store):
    assert store.add(made_row(SPECS[0], accuracy=60.0))
    assert not store.add(made_row(SPECS[0], accuracy=70.0))
    (row,) = store.rows()
    assert row.accuracy == 60.0


def test_failure_is_kept_and_never_counts_as_done(store):
    (row,) = failed([SPECS[0]], "boom")
    assert store.add(row)
    assert store.done_keys() == set()
    assert store.rows() == []
    assert [f.message for f in store.failures()] == ["boom"]
    store.add(failed([SPECS[0]], "boom again")[0])
    assert [f.message for f in store.failures()] == ["boom again"]
    store.add(made_row(SPECS[0]))
    assert store.failures() == []
    assert store.done_keys() == {SPECS[0].key}


def test_force_supersedes_only_what_is_older(store):
    store.add(made_row(SPECS[0], accuracy=60.0))
    started = now()
    assert store.done_keys(since=started) == set()
    assert store.add(made_row(SPECS[0], accuracy=70.0), replace_before=started)
    assert not store.add(made_row(SPECS[0], accuracy=80.0), replace_before=started)
    assert [r.accuracy for r in store.rows()] == [70.0]
    with closing(sqlite3.connect(store.path)) as db:
        kept = db.execute("SELECT status, accuracy FROM rows ORDER BY id").fetchall()
    assert kept == [("superseded", 60.0), ("done", 70.0)]


def test_a_failed_forced_run_leaves_the_old_row(store):
    store.add(made_row(SPECS[0], accuracy=60.0))
    store.add(failed([SPECS[0]], "boom")[0], replace_before=now())
    assert [r.accuracy for r in store.rows()] == [60.0]


def test_rows_of_some_keys(store):
    for spec in SPECS:
        store.add(made_row(spec))
    assert [r.spec for r in store.rows([SPECS[3].key])] == [SPECS[3]]
    assert len(store.rows()) == len(SPECS)


def test_claims_exclude_each_other(store):
    with Store(store.path) as other:
        assert store.claim("u")
        assert store.claim("u")
        assert not other.claim("u")
        assert other.claim("v")
        store.release("u")
        assert other.claim("u")
    assert store.claim("u")  # closing gives claims back


def test_silent_claim_is_taken_over(store, monkeypatch):
    with Store(store.path) as other:
        assert store.claim("u")
        monkeypatch.setattr(store_module, "STALE_SECONDS", -1.0)
        assert other.claim("u")


def test_renewed_claim_is_not(store):
    with Store(store.path) as other:
        store.claim("u")
        store._db.execute("UPDATE claims SET alive = alive - 1000")
        store.still_alive()
        assert not other.claim("u")


def test_claim_of_a_dead_process_is_taken_over(store):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    store.claim("u")
    store._db.execute("UPDATE claims SET owner = 'other', pid = ?", (gone.pid,))
    assert store.claim("u")


def test_many_writers(store):
    def write(part):
        with Store(store.path) as mine:
            for spec in SPECS[part:]:
                mine.add(made_row(spec))

    writers = [threading.Thread(target=write, args=(part,)) for part in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(store.rows()) == len(SPECS)


@pytest.mark.parametrize("content", [b"accuracy,model\n" * 100, b"SQLite format 3\0" + b"x" * 5000])
def test_foreign_file(tmp_path, content):
    path = tmp_path / "results.sqlite"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is not a result store"):
        Store(path)


def test_newer_format(tmp_path):
    path = tmp_path / "results.sqlite"
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StoreError, match="store format 99, this marda writes 1"):
        Store(path)
