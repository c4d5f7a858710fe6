"""Every file reader of marda: a small whole file, how it is read, and what protects it."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

import marda
from marda.benchmarks import store as stores
from marda.benchmarks.plan import Request
from marda.benchmarks.store import ResultRow, failed
from marda.datasets import DataError
from marda.datasets.storage import csv_domain, mat_domain, npz_domain
from marda.io import InputError, read_table
from marda.moments.files import MomentsFileError
from marda.moments.parquet import ParquetRows
from marda.persist import ModelFileError

__all__ = ["READERS", "Reader", "fingerprint"]

RNG = np.random.default_rng(0)
X = np.round(RNG.standard_normal((40, 6)), 3)
Y = (X[:, 0] > 0).astype(int)
NAMES = [f"reading{k}" for k in range(6)]
WORDS = np.array(["dry", "wet"])[Y]


@dataclass(frozen=True)
class Reader:
    """One reader and one kind of file."""

    name: str
    file: str
    make: Callable[[Path], Any]
    read: Callable[[Path], Any]
    refusal: type[Exception] | tuple[type[Exception], ...]
    #: What a checksum in the file covers.
    checked: str
    #: Why damage may pass as other values; empty: it must not.
    gap: str = ""


def fingerprint(value: Any) -> str:
    """The same for the same values, and no other."""
    digest = hashlib.sha256()
    _feed(digest, value)
    return digest.hexdigest()


def _feed(digest: Any, value: Any) -> None:
    if sp.issparse(value):
        value = sp.csr_array(value)
        value.sum_duplicates()
        value = ("csr", value.shape, value.data, value.indices, value.indptr)
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        digest.update(f"{value.shape}".encode())
        numbers = value.astype(np.float64, order="C") + 0.0  # −0 is 0
        numbers[np.isnan(numbers)] = np.nan
        digest.update(numbers.tobytes())
    elif isinstance(value, np.ndarray):
        digest.update(repr((value.shape, value.tolist())).encode("utf-8", "replace"))
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            digest.update(f"{key!r}:".encode("utf-8", "replace"))
            _feed(digest, value[key])
    elif isinstance(value, tuple | list):
        digest.update(b"(")
        for item in value:
            _feed(digest, item)
        digest.update(b")")
    else:
        digest.update(repr(value).encode("utf-8", "replace"))


# How files are read ---------------------------------------------------------------------------


def _table(path: Path) -> Any:
    table = read_table(path)
    return (
        table.n_rows,
        dict(table.columns),
        table.block,
        table.block_names,
        dict(table.refused),
    )


def _model(path: Path) -> Any:
    model = marda.load(path)
    return model.classes_, model.predict_proba(X[:5]), model.get_params(), model.preprocessing_


def _moments(path: Path) -> Any:
    return vars(marda.Moments.load(path))


def _parquet_rows(path: Path) -> Any:
    rows = ParquetRows.open([path], label="y")
    return [batch for file, group in rows.groups() for batch in rows.batches(file, group)]


def _domain(read: Callable[..., Any], *args: Any) -> Callable[[Path], Any]:
    def whole(path: Path) -> Any:
        domain = read(path, *args)
        return domain.X, domain.y

    return whole


def _store(path: Path) -> Any:
    with stores.Store(path) as store:
        return store.rows(), store.failures(), sorted(store.done_keys()), store.claim("unit")


# How files are made ---------------------------------------------------------------------------


def _fitted(model: Any) -> Any:
    rows, labels, domains = marda.pack(X, Y, X + 0.5)
    return model.fit(rows, labels, sample_domain=domains)


def _make_model(path: Path) -> None:
    model = _fitted(marda.MDAClassifier("S1D"))
    model.preprocessing_ = {"steps": []}
    marda.persist.save(model, path)


def _make_auto(path: Path) -> None:
    model = _fitted(marda.MDAClassifierCV())
    model.preprocessing_ = {"steps": []}
    marda.persist.save(model, path)


def _make_moments(path: Path) -> None:
    marda.Moments.from_arrays(X, Y, np.zeros(len(X), dtype=int), class_grams=True).save(path)


def _make_old_moments(path: Path) -> None:
    kept = Path(__file__).parents[2] / "tests" / "data" / "format-1.moments"
    path.write_bytes(kept.read_bytes())


def _make_npz(path: Path) -> None:
    np.savez(path, X=X, y=Y, word=WORDS, feature_names=np.array(NAMES))


def _make_packed_npz(path: Path) -> None:
    np.savez_compressed(path, X=X.astype(np.float32), y=Y)


def _make_data_npz(path: Path) -> None:
    np.savez_compressed(path, a_X=X, a_y=Y)


def _mat(packed: bool, form: str = "5", sparse: bool = False) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        content: dict[str, Any] = {"fts": X[:, :4], "labels": Y[:, None] + 1.0}
        if sparse:
            content["fts"] = sp.csc_array(np.where(abs(X) > 1, X, 0))
            content["word"] = WORDS.astype(object)
        scipy.io.savemat(path, content, do_compression=packed, format=form)

    return make


def _svmlight() -> bytes:
    lines = [
        f"{y} " + " ".join(f"{k}:{v}" for k, v in enumerate(row, 1))
        for row, y in zip(X, Y, strict=True)
    ]
    return "\n".join(lines).encode() + b"\n"


def _csv(label: str = "y") -> bytes:
    lines = [",".join([*NAMES, "note", label])]
    lines += [
        ",".join([*map(str, row), '"a ""b"", c"' if y else "", str(y)])
        for row, y in zip(X, Y, strict=True)
    ]
    return "\n".join(lines).encode() + b"\n"


def _data_csv() -> bytes:
    lines = [",".join([*map(str, row), str(y)]) for row, y in zip(X, Y, strict=True)]
    return "\n".join(lines).encode() + b"\n"


def _bytes(data: bytes, packed: bool = False) -> Callable[[Path], Any]:
    content = gzip.compress(data, mtime=0) if packed else data
    return lambda path: path.write_bytes(content)


def _local_csv() -> bytes:
    """As a German office writes it: decimal commas, dates, Windows-1252."""
    lines = [";".join([*NAMES, "tag", "größe", "y"])]
    for k, (row, y) in enumerate(zip(X, Y, strict=True)):
        cells = [str(v).replace(".", ",") for v in row]
        lines.append(";".join([*cells, f"{k % 28 + 1:02d}.03.2024", "groß", str(y)]))
    return "\r\n".join(lines).encode("cp1252")


def _records() -> list[dict[str, Any]]:
    return [
        {**dict(zip(NAMES, row.tolist(), strict=True)), "word": word, "ok": bool(y), "y": int(y)}
        for row, word, y in zip(X, WORDS.tolist(), Y, strict=True)
    ]


def _json_lines() -> bytes:
    return "".join(json.dumps(row) + "\n" for row in _records()).encode()


def _zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("a.csv", _csv())


def _zstandard(path: Path) -> None:
    import zstandard

    context = zstandard.ZstdCompressor(write_checksum=True)
    path.write_bytes(context.compress(_csv()))


def _workbook(path: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append([*_records()[0]])
    for row in _records():
        sheet.append([*row.values()])
    held = io.BytesIO()
    book.save(held)
    path.write_bytes(held.getvalue())


def _feather(compression: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        import pyarrow as pa
        from pyarrow import feather

        columns: dict[str, Any] = {name: X[:, k] for k, name in enumerate(NAMES)}
        table = pa.table({**columns, "word": WORDS.tolist(), "y": Y})
        feather.write_feather(table, path, compression=compression)

    return make


def _converted(path: Path) -> Any:
    """A table whose text was made numbers and dates of."""
    from marda.io.conventions import Notation, settle

    table = read_table(path)
    found, problems, *_ = settle([table], [*table.columns], [Notation()])
    return table.n_rows, dict(found[0].columns), [p.what for p in problems], table.names


def _parquet(text: bool = True, **options: Any) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns: dict[str, Any] = {name: X[:, k] for k, name in enumerate(NAMES)}
        columns |= {"word": WORDS.tolist(), "y": Y} if text else {"y": Y}
        pq.write_table(pa.table(columns), path, row_group_size=20, **options)

    return make


def _rows() -> list[ResultRow]:
    specs = Request("us", tasks=["books-dvd"]).specs()[:6]
    done = [
        ResultRow(spec, "done", 60.0 + k, 59.0, 100, fit_seconds=0.5, finished=stores.now())
        for k, spec in enumerate(specs[:5])
    ]
    return [*done, *failed(specs[5:], "boom")]


def _make_store(path: Path) -> None:
    with stores.Store(path) as store:
        for row in _rows():
            store.add(row)


def _make_old_store(path: Path) -> None:
    """As format 1 wrote it."""
    _make_store(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DROP TABLE checksums")
        db.execute("PRAGMA user_version = 1")
        db.execute("VACUUM")


NO_TEXT = "text has no checksum"
NO_MAT = "uncompressed MATLAB files have no checksum"
NO_ARROW = "Arrow files have no checksum"
NO_PARQUET = "without page checksums"
FOOTER = "page headers and the footer have no checksum"
TABLE = (InputError,)
READERS = {
    reader.name: reader
    for reader in (
        Reader("model", "m.marda", _make_model, _model, ModelFileError, "SHA-256"),
        Reader("model, auto", "m.marda", _make_auto, _model, ModelFileError, "SHA-256"),
        Reader("moments", "m.moments", _make_moments, _moments, MomentsFileError, "SHA-256"),
        Reader(
            "moments, format 1",
            "m.moments",
            _make_old_moments,
            _moments,
            MomentsFileError,
            "SHA-256",
        ),
        Reader("npz", "a.npz", _make_npz, _table, TABLE, "CRC-32"),
        Reader("npz, deflated", "a.npz", _make_packed_npz, _table, TABLE, "CRC-32"),
        Reader(
            "npz, CSR",
            "a.npz",
            lambda path: sp.save_npz(path, sp.csr_array(np.where(abs(X) > 1, X, 0))),
            _table,
            TABLE,
            "CRC-32",
        ),
        Reader(
            "npz, data set",
            "a.npz",
            _make_data_npz,
            _domain(npz_domain, "a", 2),
            DataError,
            "CRC-32",
        ),
        Reader("mat", "a.mat", _mat(False), _table, TABLE, "none", NO_MAT),
        Reader("mat, compressed", "a.mat", _mat(True), _table, TABLE, "Adler-32"),
        Reader(
            "mat, sparse, cells", "a.mat", _mat(False, sparse=True), _table, TABLE, "none", NO_MAT
        ),
        Reader(
            "mat, level 4",
            "a.mat",
            _mat(False, "4"),
            _domain(mat_domain, 10),
            DataError,
            "none",
            NO_MAT,
        ),
        Reader(
            "mat, data set", "a.mat", _mat(True), _domain(mat_domain, 10), DataError, "Adler-32"
        ),
        Reader("svmlight", "a.svm", _bytes(_svmlight()), _table, TABLE, "none", NO_TEXT),
        Reader("svmlight, gzip", "a.svm.gz", _bytes(_svmlight(), True), _table, TABLE, "CRC-32"),
        Reader("CSV", "a.csv", _bytes(_csv()), _table, TABLE, "none", NO_TEXT),
        Reader("CSV, gzip", "a.csv.gz", _bytes(_csv(), True), _table, TABLE, "CRC-32"),
        Reader("CSV, local", "a.csv", _bytes(_local_csv()), _converted, TABLE, "none", NO_TEXT),
        Reader(
            "CSV, UTF-16",
            "a.csv",
            _bytes(_csv().decode().encode("utf-16")),
            _table,
            TABLE,
            "none",
            NO_TEXT,
        ),
        Reader("CSV, bzip2", "a.csv.bz2", _bytes(bz2.compress(_csv())), _table, TABLE, "CRC-32"),
        Reader("CSV, xz", "a.csv.xz", _bytes(lzma.compress(_csv())), _table, TABLE, "CRC-64"),
        Reader("CSV, zip", "a.zip", _zip, _table, TABLE, "CRC-32"),
        Reader("CSV, zstandard", "a.csv.zst", _zstandard, _table, TABLE, "XXH64"),
        Reader(
            "JSON",
            "a.json",
            _bytes(json.dumps(_records()).encode()),
            _table,
            TABLE,
            "none",
            NO_TEXT,
        ),
        Reader("JSON lines", "a.jsonl", _bytes(_json_lines()), _table, TABLE, "none", NO_TEXT),
        Reader("Excel", "a.xlsx", _workbook, _table, TABLE, "CRC-32"),
        Reader("Arrow", "a.feather", _feather("uncompressed"), _table, TABLE, "none", NO_ARROW),
        Reader("Arrow, LZ4", "a.feather", _feather("lz4"), _table, TABLE, "none", NO_ARROW),
        Reader(
            "CSV, data set",
            "a.csv",
            _bytes(_data_csv()),
            _domain(csv_domain, ("a", "b")),
            DataError,
            "none",
            NO_TEXT,
        ),
        Reader(
            "Parquet, as others write", "a.parquet", _parquet(), _table, TABLE, "none", NO_PARQUET
        ),
        Reader(
            "Parquet, as marda writes",
            "a.parquet",
            _parquet(write_page_checksum=True),
            _table,
            TABLE,
            "CRC-32 of pages",
            FOOTER,
        ),
        Reader(
            "Parquet to moments",
            "a.parquet",
            _parquet(text=False, write_page_checksum=True, compression="none"),
            _parquet_rows,
            InputError,
            "CRC-32 of pages",
            FOOTER,
        ),
        Reader(
            "result store",
            "results.sqlite",
            _make_store,
            _store,
            stores.StoreError,
            "SHA-256 of rows",
        ),
        Reader(
            "result store, format 1",
            "results.sqlite",
            _make_old_store,
            _store,
            stores.StoreError,
            "none",
            "format 1 has no checksum",
        ),
    )
}
