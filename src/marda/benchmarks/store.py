"""Result rows and their store: one SQLite file that survives ``kill -9`` and several runners.

Why SQLite in WAL mode and not append-only JSONL or Parquet: a row is one transaction, so a killed
process leaves either the whole row or nothing (a JSONL line can be cut in half, and two writers can
interleave); a unique index makes "done once" a property of the file and not of the code that
writes it; claims between runners need an atomic compare-and-set, which files do not have.
It is in the standard library, and ``sqlite3 results.sqlite`` reads it without marda. The price:
WAL needs a disk of this machine, not a network folder.

Rows are never deleted. A forced rerun marks the old row ``superseded``; a failure is kept for the
record and never counts as done.

SQLite has no checksums of its own. Every row has one here, kept apart from the row, and a file is
read only if its tables are those below, SQLite finds them whole, and every row fits its checksum.
Format 1 had none: such a file gets them when it is opened, if its rows can be read.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import socket
import sqlite3
import time
import traceback
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from marda._machine import device_name, git_commit, machine, versions
from marda.benchmarks.plan import Spec
from marda.io.writing import process_exists, replacing

Status = Literal["done", "failed"]
FORMAT = 2
STALE_SECONDS = 60.0
"""A claim whose runner has not given a sign of life for so long may be taken over."""
LOCK_TRIES = 100
MAX_VALUE = 2**27
"""Bytes of one value: SQLite takes no memory for more, whatever a damaged file declares."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS rows (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('done', 'failed', 'superseded')),
    finished TEXT NOT NULL,
    accuracy REAL,
    balanced_accuracy REAL,
    seconds REAL,
    peak_mb REAL,
    message TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS one_done_row_a_key ON rows (key) WHERE status = 'done';
CREATE INDEX IF NOT EXISTS rows_by_key ON rows (key);
CREATE TABLE IF NOT EXISTS claims (
    unit TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    alive REAL NOT NULL
);
"""
_CHECKSUMS = """
CREATE TABLE IF NOT EXISTS checksums (id INTEGER PRIMARY KEY, sha256 TEXT NOT NULL);
"""
_ROW = "id, key, status, finished, accuracy, balanced_accuracy, seconds, peak_mb, message, body"


@dataclass(frozen=True)
class ResultRow:
    """The outcome of one spec. ``accuracy`` and ``balanced_accuracy`` are in percent."""

    spec: Spec
    status: Status
    accuracy: float | None = None
    balanced_accuracy: float | None = None
    n_test: int | None = None
    load_seconds: float = 0.0
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    """Shares of shared work: summed over rows they give the time that was spent."""
    peak_mb: float | None = None
    """High-water mark of the worker process up to this row of its unit, data included."""
    n_iter: int | None = None
    params: dict[str, Any] = field(default_factory=dict)
    data_checksum: str | None = None
    message: str = ""
    """Why it failed, or the warnings it gave."""
    versions: dict[str, str] = field(default_factory=dict)
    machine: str = ""
    commit: str = ""
    finished: str = ""
    """UTC, ISO 8601; the store fills it in."""

    @property
    def seconds(self) -> float:
        """All time that this row answers for."""
        return self.load_seconds + self.fit_seconds + self.predict_seconds

    def to_json(self) -> str:
        """One line of JSON: what travels back from a worker."""
        return json.dumps(asdict(self))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ResultRow:
        """Inverse of ``dataclasses.asdict``."""
        return cls(**{**data, "spec": Spec.from_dict(data["spec"])})

    @classmethod
    def from_json(cls, text: str) -> ResultRow:
        """Inverse of ``to_json``."""
        return cls.from_dict(json.loads(text))


def failed(specs: Sequence[Spec], message: str, **known: Any) -> list[ResultRow]:
    """Failure rows with one common message."""
    return [stamp(ResultRow(spec, "failed", message=message, **known)) for spec in specs]


def stamp(row: ResultRow, device: str | None = None) -> ResultRow:
    """Add where the row was made: versions, machine and device, commit."""
    packages, place = versions(), machine()
    if device is not None:
        packages, place = versions("torch"), f"{place}, {device_name(device)}"
    return replace(row, versions=packages, machine=place, commit=git_commit())


def write_rows(path: Path, rows: Iterable[ResultRow]) -> Path:
    """Done rows as JSON lines, sorted by key and compressed (xz): what can be cited and shipped."""
    lines = {row.spec.key: row.to_json() for row in rows if row.status == "done"}
    text = "".join(lines[key] + "\n" for key in sorted(lines))
    with replacing(path) as temporary:
        temporary.write_bytes(lzma.compress(text.encode()))
    return path


def read_rows(path: Path) -> list[ResultRow]:
    """Rows that `write_rows` wrote; anything else raises `StoreError`."""
    try:
        with lzma.open(path) as file:
            text = file.read(MAX_VALUE + 1)
        rows = [ResultRow.from_json(line) for line in text.decode().splitlines()]
    except FileNotFoundError:
        raise StoreError(f"{path} is not there: name a file of rows (.jsonl.xz).") from None
    except (OSError, EOFError, lzma.LZMAError, ValueError, TypeError, KeyError, RecursionError):
        raise StoreError(f"{path} is not a file of result rows (.jsonl.xz).") from None
    return rows


def describe(error: BaseException) -> str:
    """The error and the line that raised it: enough to find it, short enough for a table."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


class StoreError(ValueError):
    """The file is not a store this version can read; the message says what to do."""


class Store:
    """Result rows and claims in one SQLite file.

    Parameters
    ----------
    path : path
        The file; it and its folder are created when missing. ``:memory:`` is forgotten when closed.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.owner = uuid.uuid4().hex
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Autocommit: transactions are opened by name below, none by accident.
        self._db = sqlite3.connect(self.path, timeout=60.0, isolation_level=None)
        try:
            self._prepare()
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            self._db.close()
            why = " ".join(str(error).split())[:120]
            raise StoreError(
                f"{self.path} is not a result store ({why}): name another --out or move the file."
            ) from error
        except StoreError:
            self._db.close()
            raise

    def _switch_to_wal(self) -> None:
        """Wait for the lock here: this one statement does not, and two runners may open at once."""
        for attempt in range(LOCK_TRIES):
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or attempt == LOCK_TRIES - 1:
                    raise
                time.sleep(0.1)

    def _prepare(self) -> None:
        self._db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
        self._db.execute("PRAGMA trusted_schema = OFF")
        self._db.execute("PRAGMA cell_size_check = ON")
        self._switch_to_wal()
        # FULL: a row that was reported as stored is on the disk even if the power fails.
        self._db.execute("PRAGMA synchronous = FULL")
        with self._transaction():
            (found,) = self._db.execute("PRAGMA user_version").fetchone()
            if found > FORMAT:
                raise StoreError(
                    f"{self.path} has store format {found}, this marda writes {FORMAT}: "
                    "name another --out."
                )
            if found not in (0, 1, FORMAT) or _tables(self._db) != _expected(found):
                raise self._damaged("its tables are not those of a result store")
            self._check_pages()
            if found == FORMAT:
                self._check_rows()
                return
            for statement in (_SCHEMA + _CHECKSUMS).split(";"):
                self._db.execute(statement)
            self._add_checksums()
            self._db.execute(f"PRAGMA user_version = {FORMAT}")

    def _damaged(self, why: str) -> StoreError:
        return StoreError(
            f"{self.path} is damaged ({why}): put a copy in its place, or name another --out."
        )

    def _check_pages(self) -> None:
        """What SQLite itself can tell: that pages, indices and rows belong together."""
        (verdict,) = self._db.execute("PRAGMA integrity_check(1)").fetchone()
        if verdict != "ok":
            raise self._damaged(" ".join(str(verdict).split())[:120])

    def _check_rows(self) -> None:
        """Every row has its checksum, and every checksum its row."""
        known = dict(self._db.execute("SELECT id, sha256 FROM checksums"))
        for row in self._db.execute(f"SELECT {_ROW} FROM rows"):
            if known.pop(row[0], None) != _checksum(row):
                raise self._damaged(f"row {row[0]} does not fit its checksum")
        if known:
            raise self._damaged(f"row {min(known)} is lost")

    def _add_checksums(self) -> None:
        """Checksums for the rows of a file without, as far as they agree with themselves."""
        for row in self._db.execute(f"SELECT {_ROW} FROM rows").fetchall():
            if row[2] != "superseded":
                try:
                    body = ResultRow.from_json(row[-1])
                except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                    raise self._damaged(f"row {row[0]} cannot be read") from None
                told = body.finished, body.accuracy, body.balanced_accuracy, body.message
                if told != (row[3], row[4], row[5], row[8]):
                    raise self._damaged(f"row {row[0]} contradicts itself")
            self._seal(row[0])

    def _seal(self, id: int | None) -> None:
        """Store the checksum of a row as it stands in the file."""
        row = self._db.execute(f"SELECT {_ROW} FROM rows WHERE id = ?", (id,)).fetchone()
        self._db.execute("INSERT OR REPLACE INTO checksums VALUES (?, ?)", (id, _checksum(row)))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Take the write lock at once, so that what was read still holds when it is written."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # Rows -----------------------------------------------------------------------------------

    def add(self, row: ResultRow, *, replace_before: str | None = None) -> bool:
        """Store one row in its own transaction; False if another runner stored it first.

        ``replace_before`` (a time): a done row older than it is superseded (``--force``).
        """
        row = replace(row, finished=now())
        key = row.spec.key
        with self._transaction():
            if row.status == "done" and replace_before is not None:
                old = self._db.execute(
                    "SELECT id FROM rows WHERE key = ? AND status = 'done' AND finished < ?",
                    (key, replace_before),
                ).fetchall()
                for (id,) in old:
                    self._db.execute("UPDATE rows SET status = 'superseded' WHERE id = ?", (id,))
                    self._seal(id)
            cursor = self._db.execute(
                "INSERT INTO rows (key, status, finished, accuracy, balanced_accuracy, seconds,"
                " peak_mb, message, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                (
                    key,
                    row.status,
                    row.finished,
                    row.accuracy,
                    row.balanced_accuracy,
                    row.seconds,
                    row.peak_mb,
                    row.message,
                    json.dumps(asdict(row)),
                ),
            )
            if cursor.rowcount == 1:
                self._seal(cursor.lastrowid)
        return cursor.rowcount == 1

    def done_keys(self, *, since: str | None = None) -> set[str]:
        """Keys that need no run; with ``since``, only those finished at that time or later."""
        query = "SELECT key FROM rows WHERE status = 'done' AND finished >= ?"
        return {key for (key,) in self._db.execute(query, (since or "",))}

    def rows(self, keys: Iterable[str] | None = None) -> list[ResultRow]:
        """Done rows, in the order they were stored."""
        wanted = None if keys is None else set(keys)
        found = self._db.execute("SELECT key, body FROM rows WHERE status = 'done' ORDER BY id")
        return [ResultRow.from_json(body) for key, body in found if wanted is None or key in wanted]

    def failures(self, keys: Iterable[str] | None = None) -> list[ResultRow]:
        """The last failure of every key that has no done row."""
        wanted = None if keys is None else set(keys)
        found = self._db.execute(
            "SELECT key, body FROM rows WHERE id IN"
            " (SELECT max(id) FROM rows WHERE status = 'failed' GROUP BY key)"
            " AND key NOT IN (SELECT key FROM rows WHERE status = 'done') ORDER BY id"
        )
        return [ResultRow.from_json(body) for key, body in found if wanted is None or key in wanted]

    # Claims ---------------------------------------------------------------------------------

    def claim(self, unit: str) -> bool:
        """Try to become the one runner of ``unit``; False while another live runner has it."""
        with self._transaction():
            held = self._db.execute(
                "SELECT owner, host, pid, alive FROM claims WHERE unit = ?", (unit,)
            ).fetchone()
            if held is not None and held[0] != self.owner and not _is_stale(*held[1:]):
                return False
            self._db.execute(
                "INSERT OR REPLACE INTO claims (unit, owner, host, pid, alive)"
                " VALUES (?, ?, ?, ?, ?)",
                (unit, self.owner, socket.gethostname(), os.getpid(), time.time()),
            )
        return True

    def still_alive(self) -> None:
        """Renew this runner's claims."""
        with self._transaction():
            self._db.execute(
                "UPDATE claims SET alive = ? WHERE owner = ?", (time.time(), self.owner)
            )

    def release(self, unit: str | None = None) -> None:
        """Give up the claim of one unit, or all of this runner's."""
        with self._transaction():
            self._db.execute(
                "DELETE FROM claims WHERE owner = ? AND (? IS NULL OR unit = ?)",
                (self.owner, unit, unit),
            )

    def close(self) -> None:
        """Give up all claims and close the file."""
        self.release()
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def now() -> str:
    """UTC with microseconds, always of one length: it sorts as text."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _tables(db: sqlite3.Connection) -> set[tuple[str, ...]]:
    """Tables and indices of a file, as they were written."""
    return set(db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


def _expected(format: int) -> set[tuple[str, ...]]:
    """Tables and indices that a file of this format has."""
    schema = {0: "", 1: _SCHEMA, FORMAT: _SCHEMA + _CHECKSUMS}[format]
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(schema)
        return _tables(db)


def _checksum(row: Sequence[Any]) -> str:
    # Damage may turn text into bytes, which JSON does not know: they are written as text.
    return hashlib.sha256(json.dumps(row, default=repr).encode()).hexdigest()[:32]


def _is_stale(host: Any, pid: Any, alive: Any) -> bool:
    """A claim is void when its process is gone (same host) or has been silent for too long."""
    if not isinstance(alive, float) or not isinstance(pid, int):
        return True  # damage: nobody can renew it
    if abs(time.time() - alive) > STALE_SECONDS:
        return True
    return host == socket.gethostname() and not process_exists(pid)
