import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from marda._machine import git_commit, machine, versions
from marda.benchmarks import store as store_module
from marda.benchmarks.store import (
    ResultRow,
    Store,
    StoreError,
    failed,
    now,
    read_rows,
    stamp,
    write_rows,
)

from .fakes import made_row, plan_table

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
    there = stamp(row, "cpu")  # fitted by torch
    assert set(there.versions) == {*row.versions, "torch"}
    assert there.machine == f"{machine()}, cpu"


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
    with pytest.raises(StoreError, match="store format 99, this marda writes 2"):
        Store(path)


@pytest.fixture
def closed(tmp_path):
    """A store with done, failed and superseded rows, and nobody who has it open."""
    path = tmp_path / "results.sqlite"
    with Store(path) as opened:
        for k, spec in enumerate(SPECS):
            opened.add(made_row(spec, accuracy=50.0 + k, message=f"note {k}"))
        opened.add(failed([SPECS[0]], "boom")[0])
        opened.add(made_row(SPECS[1], accuracy=70.0), replace_before=now())
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE rows SET body = replace(body, '51.0', '91.0')", "row 2 does not fit its checksum"),
        ("UPDATE rows SET accuracy = 99 WHERE id = 3", "row 3 does not fit its checksum"),
        ("UPDATE rows SET body = '{}' WHERE id = 1", "row 1 does not fit its checksum"),
        ("UPDATE rows SET body = x'ff00' WHERE id = 1", "row 1 does not fit its checksum"),
        ("UPDATE rows SET status = 'superseded' WHERE id = 3", "row 3 does not fit"),
        ("DELETE FROM rows WHERE id = 2", "row 2 is lost"),
        ("DELETE FROM checksums WHERE id = 2", "row 2 does not fit its checksum"),
        ("ALTER TABLE rows RENAME TO others", "its tables are not those of a result store"),
        ("DROP INDEX one_done_row_a_key", "its tables are not those of a result store"),
        ("PRAGMA user_version = 1", "its tables are not those of a result store"),
        ("PRAGMA user_version = 0", "its tables are not those of a result store"),
        ("PRAGMA user_version = -1", "its tables are not those of a result store"),
    ],
)
def test_changed_and_lost_rows_are_refused(closed, change, words):
    with closing(sqlite3.connect(closed)) as db:
        db.execute(change)
        db.commit()
    with pytest.raises(StoreError, match=words) as caught:
        Store(closed)
    assert str(closed) in str(caught.value)
    assert "name another --out" in str(caught.value)


def test_a_changed_byte_of_a_row_is_refused(closed):
    data = bytearray(closed.read_bytes())
    data[data.index(b'"accuracy": 5') + len('"accuracy": ')] = ord("9")
    closed.write_bytes(data)
    with pytest.raises(StoreError, match="does not fit its checksum"):
        Store(closed)


def test_a_damaged_index_is_refused(closed):
    data = bytearray(closed.read_bytes())
    last = data.rindex(SPECS[2].key.encode())
    data[last] ^= 1  # the row's key stands first in the file, or its index entry: both are refused
    closed.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        Store(closed)


def old_store(path, rows):
    """A file as format 1 wrote it: without checksums."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in store_module._SCHEMA.split(";"):
            db.execute(statement)
        for row in rows:
            values = (row.spec.key, row.status, row.finished, row.accuracy, row.balanced_accuracy)
            values += (row.seconds, row.peak_mb, row.message, row.to_json())
            db.execute(
                "INSERT INTO rows (key, status, finished, accuracy, balanced_accuracy, seconds,"
                " peak_mb, message, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )
        db.execute("PRAGMA user_version = 1")


def test_a_store_without_checksums_loads_goes_on_and_gets_them(tmp_path):
    path = tmp_path / "results.sqlite"
    rows = [made_row(spec, accuracy=60.0, finished=now()) for spec in SPECS[:3]]
    old_store(path, rows)
    with Store(path) as opened:
        assert opened.rows() == rows
        assert opened.add(made_row(SPECS[3]))
        assert not opened.add(made_row(SPECS[0]))
    with Store(path) as opened:
        assert len(opened.rows()) == 4
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM checksums").fetchone() == (4,)
        db.execute("UPDATE rows SET finished = 'x' WHERE id = 1")
        db.commit()
    with pytest.raises(StoreError, match="row 1 does not fit its checksum"):
        Store(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE rows SET body = replace(body, '60.0', '90.0')", "row 1 contradicts itself"),
        ("UPDATE rows SET body = '{' WHERE id = 2", "row 2 cannot be read"),
        ("UPDATE rows SET body = '{\"status\": 1}' WHERE id = 2", "row 2 cannot be read"),
        ("UPDATE rows SET body = '[1]' WHERE id = 2", "row 2 cannot be read"),
    ],
)
def test_damage_that_shows_without_checksums(tmp_path, change, words):
    path = tmp_path / "results.sqlite"
    old_store(path, [made_row(spec, accuracy=60.0, finished=now()) for spec in SPECS[:3]])
    with closing(sqlite3.connect(path)) as db:
        db.execute(change)
        db.commit()
    with pytest.raises(StoreError, match=words):
        Store(path)


def test_a_damaged_claim_is_void(store):
    with Store(store.path) as other:
        for change in ("alive = 'soon'", "pid = 'me'", "alive = alive + 1e9"):
            assert store.claim("u")
            store._db.execute(f"UPDATE claims SET {change}")
            assert other.claim("u")
            other.release()


def test_rows_travel_as_one_compressed_file(tmp_path):
    path = tmp_path / "rows.jsonl.xz"
    rows = [made_row(spec) for spec in plan_table("us", datasets=["amt"], models=["S1"])]
    write_rows(path, reversed(rows))
    found = read_rows(path)
    assert {row.spec.key: row for row in found} == {row.spec.key: row for row in rows}
    first = path.read_bytes()
    write_rows(path, found)
    assert path.read_bytes() == first  # in whatever order they came
    for damage in (first[:40], b"", first[:-20] + b"x" * 20, b"not xz"):
        path.write_bytes(damage)
        with pytest.raises(StoreError, match="is not a file of result rows"):
            read_rows(path)
