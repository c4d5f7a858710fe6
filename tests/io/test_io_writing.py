"""Predictions: text that a spreadsheet would run is made harmless, numbers stay numbers."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from marda.io import PredictionWriter, read_table
from marda.io.writing import harmless

FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\tx", "\rx", "=", "--1", "+", "'=1"]
NUMBERS = ["-1", "+1", "-1.5", "-.5", "-1e-5", "+2E+10", "-0", "12", "1-2", "a=b", "", "'quoted'"]


def write(path, ids, labels):
    classes = np.array(sorted(set(labels)), dtype=object)
    codes = np.array([classes.tolist().index(label) for label in labels])
    P = np.full((len(codes), len(classes)), 1 / len(classes))
    with PredictionWriter(path, classes, "=id") as out:
        out.write(np.array(ids, dtype=object), codes, P)


def rows(path, delimiter=","):
    with path.open(encoding="utf-8", newline="") as file:
        return [*csv.reader(file, delimiter=delimiter)]


@pytest.mark.parametrize("name", ["p.csv", "p.tsv"])
def test_formulas_get_an_apostrophe_and_numbers_do_not(tmp_path, name):
    """Before 0.2.0 they reached the file as they were."""
    ids = [*FORMULAS, *NUMBERS, None, -1, -2.5]
    labels = ["=A", "-1"] * (len(ids) // 2) + ["b"] * (len(ids) % 2)
    write(tmp_path / name, ids, labels)
    header, *found = rows(tmp_path / name, "\t" if name == "p.tsv" else ",")
    assert header[0] == "'=id"
    assert [row[0] for row in found[: len(FORMULAS)]] == [f"'{text}" for text in FORMULAS]
    assert [row[0] for row in found[len(FORMULAS) :]] == [*NUMBERS, "", "-1", "-2.5"]
    assert {row[1] for row in found} <= {"'=A", "-1", "b"}
    # As the guide says: one apostrophe before such a sign is taken away, and all text is back.
    back = [
        row[0][1:] if row[0].startswith(("'=", "'+", "'-", "'@", "'\t", "'\r", "''")) else row[0]
        for row in found[: len(FORMULAS)]
    ]
    assert back == FORMULAS


def test_parquet_keeps_text_as_it_is_and_pages_have_checksums(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "p.parquet"
    write(path, FORMULAS, ["=A"] * len(FORMULAS))
    table = pq.read_table(path).to_pydict()  # marda's reader would leave out outer spaces
    assert table["=id"] == FORMULAS
    assert {*table["prediction"]} == {"=A"}
    data = bytearray(path.read_bytes())
    data[data.index(b"SUM(A1)")] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"p\.parquet cannot be read as Parquet:.*[Cc][Rr][Cc]"):
        read_table(path)


def test_what_is_not_text_stays():
    assert [harmless(v) for v in (-1, -1.5, None, True)] == [-1, -1.5, None, True]
