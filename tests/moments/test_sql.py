"""Sums made inside a database are those of the rows."""

import csv
import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from marda import MDAClassifier, Moments
from marda.io.table import InputError
from marda.moments.sql import DIALECTS, moments_from_sql, moments_query
from problems import make_case

NAMES = ("age", "the dose", "größe", "order", "x5", "x6")


def table_of(case, keep):
    """Columns of some rows; None where there is no label."""
    labels = [int(c) if c >= 0 else None for c in case.codes[keep]]
    return [(*map(float, x), y) for x, y in zip(case.X[keep] + 1e4, labels, strict=True)]


def in_sqlite(rows, query, path):
    with closing(sqlite3.connect(":memory:")) as base:
        columns = ", ".join(f'"{name}"' for name in NAMES)
        base.execute(f'CREATE TABLE "my rows" ({columns}, "y")')
        base.executemany(f'INSERT INTO "my rows" VALUES ({", ".join("?" * 7)})', rows)
        found = base.execute(query)
        with open(path, "w", newline="", encoding="utf-8") as stream:
            lines = csv.writer(stream)
            lines.writerow([c[0] for c in found.description])
            lines.writerows(found)
    return path


def in_duckdb(rows, query, path):
    duckdb = pytest.importorskip("duckdb")
    columns = ", ".join(f'"{name}" DOUBLE' for name in NAMES)
    with duckdb.connect() as base:
        base.execute(f'CREATE TABLE "my rows" ({columns}, "y" INTEGER)')
        base.executemany(f'INSERT INTO "my rows" VALUES ({", ".join("?" * 7)})', rows)
        base.execute(f"COPY ({query.rstrip().rstrip(';')}) TO '{path}' (HEADER, DELIMITER ',')")
    return path


@pytest.fixture
def case():
    return make_case("SS", seed=3)


def query_of(role="source", **options):
    return moments_query("my rows", NAMES, domain=role, role=role, label="y", **options)


def direct_of(case, keep):
    y = np.where(case.codes < 0, -1, case.codes)
    return Moments.from_arrays(
        case.X[keep] + 1e4, y[keep], np.where(case.domain >= 0, 0, -1)[keep], class_grams=True
    )


def same(a, b):
    b = b.shifted(a.shift)
    assert a.classes.tolist() == b.classes.tolist()
    assert (a.domains.tolist(), a.labels.tolist()) == (b.domains.tolist(), b.labels.tolist())
    for name in ("counts", "sums", "squares", "gram", "gram_labelled", "class_grams"):
        ours, theirs = getattr(a, name), getattr(b, name)
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())


@pytest.mark.parametrize("base", [in_sqlite, in_duckdb])
@pytest.mark.parametrize("role", ["source", "target"])
@pytest.mark.parametrize("width", [1600, 5])
def test_a_database_gives_the_sums_of_the_rows(case, base, role, width, tmp_path):
    keep = (case.domain >= 0) == (role == "source")
    path = base(table_of(case, keep), query_of(role, width=width), str(tmp_path / "r.csv"))
    found = moments_from_sql(path, class_grams=True)
    assert found.feature_names.tolist() == list(NAMES)
    assert found.domain_names == {0 if role == "source" else -1: role}
    same(found, direct_of(case, keep))


def test_they_merge_and_give_the_model_of_the_rows(case, tmp_path):
    parts = []
    for role in ("source", "target"):
        keep = (case.domain >= 0) == (role == "source")
        path = in_sqlite(table_of(case, keep), query_of(role), tmp_path / f"{role}.csv")
        parts.append(moments_from_sql(path))
    model = MDAClassifier("S1D").fit_moments(parts[0] + parts[1])
    y = np.where(case.codes < 0, -1, case.codes)
    direct = MDAClassifier("S1D").fit(
        case.X + 1e4, y, sample_domain=np.where(case.domain >= 0, 0, -1)
    )
    np.testing.assert_allclose(model.coef_, direct.coef_, rtol=1e-6, atol=1e-9)


def test_missing_values_are_refused_or_left_out(case, tmp_path):
    keep = case.domain >= 0
    rows = [list(row) for row in table_of(case, keep)]
    rows[0][2] = None
    label = rows[0][-1]
    path = in_sqlite(rows, query_of(), tmp_path / "r.csv")
    with pytest.raises(InputError, match=f"1 rows of label {label} lack a value.*--skip-missing"):
        moments_from_sql(path)
    path = in_sqlite(rows, query_of(skip_missing=True), tmp_path / "r.csv")
    first = np.flatnonzero(keep)[0]
    left = keep & (np.arange(len(keep)) != first)
    same(moments_from_sql(path, class_grams=True), direct_of(case, left))


def test_labels_are_numbers_only_if_all_are(case, tmp_path):
    rows = [(*row[:-1], name) for row, name in zip(table_of(case, slice(6)), "ababab", strict=True)]
    found = moments_from_sql(in_sqlite(rows, query_of(), tmp_path / "r.csv"))
    assert found.classes.tolist() == ["a", "b"]
    rows = [(*row[:-1], n) for row, n in zip(rows, "121212", strict=True)]
    path = in_sqlite(rows, query_of(), tmp_path / "r.csv")
    assert moments_from_sql(path).classes.tolist() == [1, 2]
    assert moments_from_sql(path, text_labels=True).classes.tolist() == ["1", "2"]
    rows = [(*row[:-1], n) for row, n in zip(rows, ("1", "01") * 3, strict=True)]
    with pytest.raises(InputError, match="--text-labels"):
        moments_from_sql(in_sqlite(rows, query_of(), tmp_path / "r.csv"))


def test_a_source_without_labels_is_refused(case, tmp_path):
    rows = [(*row[:-1], None if i else 1) for i, row in enumerate(table_of(case, slice(6)))]
    with pytest.raises(InputError, match="source source has 5 rows without a label"):
        moments_from_sql(in_sqlite(rows, query_of(), tmp_path / "r.csv"))


def test_no_label_column(case, tmp_path):
    keep = case.domain < 0
    query = moments_query("my rows", NAMES, domain="t", role="target")
    found = moments_from_sql(in_sqlite(table_of(case, keep), query, tmp_path / "r.csv"))
    assert found.labels.tolist() == [-1]
    assert found.n_rows == keep.sum()
    assert len(found.classes) == 0


def changed(path, change):
    with open(path, newline="", encoding="utf-8") as stream:
        lines = list(csv.reader(stream))
    lines = change(lines)
    with open(path, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows(lines)
    return path


def _set(row, column, value):
    def change(lines):
        lines[row][lines[0].index(column)] = value
        return lines

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [], "not a result of marda moments sql"),
        (lambda lines: lines[:1], "found no rows"),
        (lambda lines: [lines[0][1:], *(x[1:] for x in lines[1:])], "not a result"),
        (lambda lines: lines[:-1], r"blocks of label .: the result was cut"),
        (lambda lines: [*lines[:-1], lines[-1][:-2]], "lines of different length"),
        (lambda lines: [*lines, lines[1]], "blocks disagree"),
        (_set(1, "v0", "1,5"), "'1,5' is no number"),
        (_set(1, "v0", ""), "'' is no number"),
        (_set(1, "v0", "inf"), "infinite or undefined"),
        (_set(1, "n", "many"), "'many' is no count"),
        (_set(1, "about", "{}"), "several queries"),
    ],
)
def test_altered_results_are_refused(case, change, words, tmp_path):
    rows = table_of(case, case.domain >= 0)
    path = in_sqlite(rows, query_of(width=9), tmp_path / "r.csv")
    with pytest.raises(InputError, match=words):
        moments_from_sql(changed(path, change))


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ("nothing", "not a result"),
        ("[]", "not a result"),
        (
            json.dumps(
                {"marda": 2, "features": ["a"], "domain": "a", "role": "source", "labelled": 1}
            ),
            "newer",
        ),
        (
            json.dumps(
                {"marda": 1, "features": ["a"], "domain": "a", "role": "judge", "labelled": 1}
            ),
            "not a result",
        ),
    ],
)
def test_foreign_results_are_refused(about, words, tmp_path):
    path = tmp_path / "r.csv"
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows(
            [["about", "block", "label", "n", "gaps", "v0"], [about, 0, 1, 2, 0, 1.0]]
        )
    with pytest.raises(InputError, match=words):
        moments_from_sql(path)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialects_differ_in_quotes_and_one_word(dialect):
    mark, double = DIALECTS[dialect]
    query = moments_query("shop.visits", ["a b"], domain="x", dialect=dialect)
    assert f"CAST({mark}a b{mark} AS {double}) AS x0" in query
    assert f"FROM {mark}shop{mark}.{mark}visits{mark}" in query
    plain = moments_query("shop.visits", ["a b"], domain="x")
    assert query.replace(mark, '"').replace(double, "DOUBLE PRECISION") == plain


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"features": []}, "name the columns"),
        ({"features": ["a", "a"]}, "'a' is named twice"),
        ({"features": ["y"]}, "is the label"),
        ({"features": ['a"; DROP TABLE t; --']}, "cannot be written in a query"),
        ({"domain": "it's"}, "cannot be written in a query"),
        ({"table": "a..b"}, "cannot be written in a query"),
        ({"dialect": "klingon"}, "dialect must be one of"),
        ({"role": "judge"}, "role must be"),
    ],
)
def test_wrong_queries(change, words):
    given = {"table": "t", "features": ["a"], "domain": "d", "label": "y", **change}
    with pytest.raises(ValueError, match=words):
        moments_query(given.pop("table"), given.pop("features"), **given)
