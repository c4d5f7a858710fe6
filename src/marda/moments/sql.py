"""Sums inside a database: one SQL query for the statistics, and its result as `Moments`.

The query computes what a `Moments` holds: per label the number of rows, Σz and Σzzᵀ, where
z = x − shift and the shift is the mean of all rows (sums about the mean keep their digits; raw
sums do not). Its result is a table of numbers v0, v1, … in the order

    shift (d), Σz (d), lower triangle of Σzzᵀ row by row (d(d+1)/2),

one row per label. Databases bound the number of columns, so that a long list continues in further
blocks of rows. The first column says what the numbers are, so that reading needs no options.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda._machine import counted
from marda._validation import UNLABELED
from marda.io.table import InputError
from marda.moments.parquet import ROLES
from marda.moments.stats import Moments

#: How names are quoted, and what a number of 64 bits is called.
DIALECTS = {
    "ansi": ('"', "DOUBLE PRECISION"),
    "bigquery": ("`", "FLOAT64"),
    "mysql": ("`", "DOUBLE"),
    "spark": ("`", "DOUBLE"),
    "sqlserver": ('"', "FLOAT"),
}
#: PostgreSQL returns at most 1,664 columns, SQL Server 4,096, BigQuery 10,000.
WIDTH = 1600
FORMAT = 1
FIRST = ("about", "block", "label", "n", "gaps")


@dataclass(frozen=True)
class _About:
    """What the numbers of a result are of; travels in its first column."""

    features: tuple[str, ...]
    domain: str
    role: str
    labelled: bool

    def to_json(self) -> str:
        return json.dumps(
            {
                "marda": FORMAT,
                "features": self.features,
                "domain": self.domain,
                "role": self.role,
                "labelled": self.labelled,
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str, path: Path) -> _About:
        try:
            held = json.loads(text)
            version = int(held["marda"])
            about = cls(
                tuple(map(str, held["features"])),
                str(held["domain"]),
                str(held["role"]),
                bool(held["labelled"]),
            )
        except (ValueError, TypeError, KeyError):
            raise _foreign(path) from None
        if version > FORMAT:
            raise InputError(f"{path}: the query is of a newer marda: read it with that one.")
        if not about.features or about.role not in ROLES:
            raise _foreign(path)
        return about


def moments_query(
    table: str,
    features: Sequence[str],
    *,
    domain: str,
    role: str = "source",
    label: str | None = None,
    dialect: str = "ansi",
    skip_missing: bool = False,
    width: int = WIDTH,
) -> str:
    """One SQL query whose result `moments_from_sql` turns into `Moments`.

    Parameters
    ----------
    table : str
        Table or view; dots separate catalogue, schema and name.
    features : sequence of str
        Columns of numbers.
    domain : str
        Name of the domain that all rows are of.
    role : {"source", "target"}, default="source"
        Which side the domain is on.
    label : str, default=None
        Column of labels; NULL means no label.
    dialect : {"ansi", "bigquery", "mysql", "spark", "sqlserver"}, default="ansi"
        How names are quoted and numbers are called.
    skip_missing : bool, default=False
        Leave out rows in which a feature is NULL; otherwise reading refuses their sums.
    width : int, default=1600
        Numbers per row of the result.

    Returns
    -------
    str
    """
    if dialect not in DIALECTS:
        raise ValueError(f"dialect must be one of {', '.join(DIALECTS)}, got {dialect!r}.")
    if role not in ROLES:
        raise ValueError(f"role must be 'source' or 'target', got {role!r}.")
    _check_names(features, label)
    mark, double = DIALECTS[dialect]

    def quoted(name: str) -> str:
        if not name or any(c in name for c in "\"`'\\\n\r"):
            raise ValueError(
                f"{name!r} cannot be written in a query: names without quotes, backslashes and "
                "line breaks can; give it another name in a view."
            )
        return f"{mark}{name}{mark}"

    source = ".".join(quoted(part) for part in table.split("."))
    quoted(domain)  # its text stands in the query as well
    d = len(features)
    columns = [f"CAST({quoted(name)} AS {double}) AS x{i}" for i, name in enumerate(features)]
    group = "NULL" if label is None else quoted(label)
    # Rows of a source whose label is NULL stay a group of their own, which reading refuses.
    rows = f"SELECT {group} AS label,\n    {_listed(columns)}\n  FROM {source}"
    if skip_missing:
        rows += "\n  WHERE " + " AND ".join(f"{quoted(name)} IS NOT NULL" for name in features)
    means = _listed([f"AVG(x{i}) AS m{i}" for i in range(d)])
    moved = _listed([f"m{i}, x{i} - m{i} AS z{i}" for i in range(d)])
    values = [
        *(f"MAX(m{i})" for i in range(d)),
        *(f"SUM(z{i})" for i in range(d)),
        *(f"SUM(z{i} * z{j})" for i in range(d) for j in range(i + 1)),
    ]
    width = min(max(width, 1), len(values))
    about = _About(tuple(features), domain, role, label is not None).to_json()
    gaps = " + ".join(f"z{i}" for i in range(d))  # NULL if any of them is
    blocks = []
    for block, start in enumerate(range(0, len(values), width)):
        some = values[start : start + width]
        some += [f"CAST(NULL AS {double})"] * (width - len(some))
        named = [f"{value} AS v{k}" for k, value in enumerate(some)]
        blocks.append(
            f"SELECT '{about}' AS about, {block} AS block, label, COUNT(*) AS n,\n"
            f"  SUM(CASE WHEN {gaps} IS NULL THEN 1 ELSE 0 END) AS gaps,\n"
            f"  {_listed(named, '  ')}\nFROM moved GROUP BY label"
        )
    return (
        f"WITH taken AS (\n  {rows}\n),\n"
        f"means AS (\n  SELECT {means}\n  FROM taken\n),\n"
        f"moved AS (\n  SELECT label,\n    {moved}\n  FROM taken CROSS JOIN means\n)\n"
        + "\nUNION ALL\n".join(blocks)
        + ";\n"
    )


def moments_from_sql(
    path: str | PathLike[str],
    *,
    text_labels: bool = False,
    class_grams: bool = False,
) -> Moments:
    """Statistics from the result of a query of `moments_query`, saved as CSV.

    Parameters
    ----------
    path : path
        The result with its header, as the database's client writes it.
    text_labels : bool, default=False
        Keep labels as text even if all of them are whole numbers.
    class_grams : bool, default=False
        Keep a Gram per class.

    Returns
    -------
    Moments
    """
    path = Path(path)
    about, groups = _read(path)
    d = len(about.features)
    names = list(groups)
    known = [name for name in names if name]
    if about.role == "source" and about.labelled and "" in groups:
        raise InputError(
            f"{path}: source {about.domain} has {counted(groups[''][0], 'row')} without a label: "
            "leave them out in a view."
        )
    values: Any = known
    if known and not text_labels and all(n.lstrip("-").isdecimal() for n in known):
        values = [int(n) for n in known]
    classes = np.unique(np.array(values)) if known else np.array([])
    codes = dict(zip(known, np.searchsorted(classes, values).tolist(), strict=True))
    if len(set(codes.values())) < len(codes):
        raise InputError(f"{path}: two labels are the same number: read it with --text-labels.")
    labels = np.array([codes.get(name, UNLABELED) for name in names], dtype=np.int64)
    order = np.argsort(labels, kind="stable")
    counts = np.array([groups[name][0] for name in names], dtype=np.float64)[order]
    numbers = np.stack([groups[name][1] for name in names])[order]
    labels = labels[order]
    grams = np.zeros((len(names), d, d))
    low = np.tril_indices(d)
    grams[:, low[0], low[1]] = numbers[:, 2 * d :]
    grams[:, low[1], low[0]] = numbers[:, 2 * d :]
    number = ROLES[about.role]
    return Moments(
        classes,
        np.full(len(names), number, dtype=np.int64),
        labels,
        counts,
        sums=numbers[:, d : 2 * d],
        squares=np.diagonal(grams, axis1=1, axis2=2).copy(),
        shift=numbers[0, :d].copy(),
        gram=grams.sum(0),
        gram_labelled=grams[labels != UNLABELED].sum(0),
        class_grams=grams[labels != UNLABELED] if class_grams else None,
        feature_names=np.array(about.features, dtype=object),
        domain_names={number: about.domain},
    )


def _read(path: Path) -> tuple[_About, dict[str, tuple[int, NDArray[np.float64]]]]:
    """What the result is of; per label its rows and its numbers, all blocks joined."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            lines = list(csv.reader(stream))
    except (UnicodeDecodeError, csv.Error):
        raise _foreign(path) from None
    header = [name.strip().lower() for name in lines[0]] if lines else []
    places = {name: k for k, name in enumerate(header)}
    width = len(header) - len(FIRST)
    if width < 1 or any(name not in places for name in (*FIRST, *(f"v{k}" for k in range(width)))):
        raise _foreign(path)
    take = [places[f"v{k}"] for k in range(width)]
    rows = [line for line in lines[1:] if line]
    if not rows:
        raise InputError(f"{path}: the query found no rows.")
    if any(len(line) != len(header) for line in rows):
        raise InputError(f"{path}: lines of different length: the file was cut or altered.")
    abouts = {line[places["about"]] for line in rows}
    if len(abouts) > 1:
        raise InputError(f"{path}: results of several queries: keep one per file.")
    about = _About.from_json(abouts.pop(), path)
    d = len(about.features)
    needed = 2 * d + d * (d + 1) // 2
    n_blocks = math.ceil(needed / width)
    parts: dict[str, dict[int, list[str]]] = {}
    counts: dict[str, int] = {}
    for line in rows:
        name = line[places["label"]]
        name = "" if name.strip().upper() in ("NULL", r"\N") else name
        block, n, gaps = (_whole(path, line[places[key]]) for key in ("block", "n", "gaps"))
        if gaps:
            raise InputError(
                f"{path}: {gaps:,} rows of {f'label {name}' if name else 'no label'} lack a "
                "value: fill them in a view, or write the query with --skip-missing."
            )
        if counts.setdefault(name, n) != n or block in parts.setdefault(name, {}):
            raise InputError(f"{path}: its blocks disagree: the table changed, run it again.")
        parts[name][block] = [line[k] for k in take]
    groups = {}
    for name, blocks in parts.items():
        if sorted(blocks) != list(range(n_blocks)):
            raise InputError(
                f"{path}: {len(blocks)} of {n_blocks} blocks of label {name or 'NULL'}: the "
                "result was cut; save all of its rows."
            )
        texts = [text for block in range(n_blocks) for text in blocks[block]][:needed]
        groups[name] = counts[name], _numbers(path, texts)
    return about, groups


def _numbers(path: Path, texts: list[str]) -> NDArray[np.float64]:
    try:
        numbers = np.array([float(text) for text in texts])
    except ValueError:
        wrong = next(text for text in texts if not _is_number(text))
        raise InputError(
            f"{path}: {wrong!r} is no number: save the result with all digits, a decimal point "
            "and no thousands separators."
        ) from None
    if not np.isfinite(numbers).all():
        raise InputError(f"{path}: infinite or undefined sums: some column has such values.")
    return numbers


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _whole(path: Path, text: str) -> int:
    if not text.strip().isdecimal():
        raise InputError(f"{path}: {text!r} is no count of rows.")
    return int(text)


def _check_names(features: Sequence[str], label: str | None) -> None:
    if not features:
        raise ValueError("name the columns of numbers with --features a,b,c.")
    twice = {name for name in features if list(features).count(name) > 1}
    if twice:
        raise ValueError(f"column {min(twice)!r} is named twice.")
    if label in features:
        raise ValueError(f"column {label!r} is the label, and cannot be a feature.")


def _foreign(path: Path) -> InputError:
    return InputError(
        f"{path}: not a result of marda moments sql: save it as CSV, UTF-8, with its header."
    )


def _listed(items: Sequence[str], indent: str = "    ") -> str:
    """Comma-separated, a few to a line."""
    lines = [", ".join(items[k : k + 6]) for k in range(0, len(items), 6)]
    return f",\n{indent}".join(lines)
