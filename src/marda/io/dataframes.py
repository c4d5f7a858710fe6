"""DataFrames of pandas and polars as tables, and tables of results as such DataFrames.

Neither library is imported to read one: a DataFrame brings its own methods, and every column of it
becomes an array of numpy, or cells that are read as those of JSON and Excel are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.io.cells import NESTED, table_of_cells
from marda.io.table import InputError, Table, some_names
from marda.io.text import name_columns

LIBRARIES = ("pandas", "polars")
#: Missing values, and values that are written as text, by their type: of libraries that may not be
#: installed.
MISSING_TYPES = frozenset({"NAType", "NaTType", "NoneType"})
TEXT_TYPES = frozenset({"Period", "Interval", "UUID", "Path", "PosixPath", "WindowsPath"})


@dataclass(frozen=True)
class Frame:
    """A DataFrame of the caller.

    Attributes
    ----------
    given : DataFrame
        As it came; never written to.
    library : {"pandas", "polars"}
        Whose it is.
    name : str
        For messages: "the source".
    """

    given: Any
    library: str
    name: str

    @property
    def n_rows(self) -> int:
        """Rows."""
        return int(self.given.shape[0])

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns, as tables have them; "" where there is none."""
        return ["" if name is None else str(name).strip() for name in self.given.columns]

    def column(self, name: str) -> Any:
        """The caller's own column of that name."""
        return self._series(self.names.index(name))

    def holds_truths(self, name: str) -> bool:
        """Whether all known values of a column are true or false."""
        values = self._values(self.names.index(name)) if name in self.names else np.empty(0)
        if values.dtype.kind == "b":
            return True
        known = [cell for cell in map(_cell, values.tolist()) if cell is not None]
        return bool(known) and {*map(type, known)} == {bool}

    def rows(self, places: NDArray[np.int64], more: Mapping[str, Any]) -> Any:
        """Some rows with all their columns, and further ones; a name that is taken gets a mark."""
        named = {f"{name}_" if name in self.names else name: more[name] for name in more}
        if self.library == "pandas":
            return self.given.iloc[places].assign(**named)
        return self.given[places.tolist()].hstack(make_frame("polars", named))

    def table(self, label: str | None = None) -> Table:
        """The rows as every reader gives them.

        Parameters
        ----------
        label : str, default=None
            Column of labels, in which true and false are classes and not the numbers 1 and 0.
        """
        if self.library == "pandas" and self.given.columns.nlevels > 1:
            raise InputError(
                f"{self.name} has {self.given.columns.nlevels} levels of column names: give every "
                "column one name."
            )
        if not self.n_rows:
            raise InputError(f"{self.name} has no rows.")
        names, nameless, refused = name_columns(self.names)
        arrays: dict[str, NDArray[Any]] = {}
        cells: dict[str, list[Any]] = {}
        for k, name in enumerate(names):
            if name in refused:
                continue
            values = self._values(k)
            if values.ndim > 1:
                refused[name] = NESTED
            elif values.dtype.kind in "iufb":
                arrays[name] = values
            elif values.dtype.kind == "M":
                arrays[name] = values.astype("datetime64[us]")
            elif values.dtype.kind == "m":
                arrays[name] = values / np.timedelta64(1, "D")
            elif values.dtype.kind in "OUT":
                cells[name] = [_cell(value) for value in values.tolist()]
            else:
                refused[name] = f"has type {values.dtype}, neither numbers nor text"
        if label and label in names and label not in refused and self.holds_truths(label):
            truths = arrays.pop(label).tolist() if label in arrays else cells[label]
            cells[label] = [None if value is None else str(value) for value in truths]
        table = table_of_cells(self.name, self.n_rows, cells, refused=refused, nameless=nameless)
        held = {**arrays, **table.columns}
        columns = {name: held[name] for name in names if name in held}
        return Table(
            self.name,
            self.n_rows,
            columns,
            refused=table.refused,
            notes=self._index_notes(),
            nameless=nameless,
        )

    def _index_notes(self) -> tuple[str, ...]:
        """That an index holds more than names of rows, and is not read."""
        index = self.given.index if self.library == "pandas" else None
        if index is None or (index.nlevels == 1 and index.is_unique):
            return ()
        names = [name for name in index.names if name is not None]
        if not names:
            return ()
        told = f"the index of {self.name} ({some_names(names)}) is not read"
        return (f"{told}: .reset_index() makes columns of it.",)

    def _series(self, place: int) -> Any:
        return (
            self.given.iloc[:, place] if self.library == "pandas" else self.given.to_series(place)
        )

    def _values(self, place: int) -> NDArray[Any]:
        series = self._series(place)
        if self.library == "polars":
            if str(series.dtype).endswith("Int128"):  # numpy has none
                return np.array(series.to_list(), dtype=object)
            return np.asarray(series.to_numpy())
        kind = getattr(series.dtype, "kind", "O")
        if kind in "iufb" and not isinstance(series.dtype, np.dtype):
            # Numbers with gaps of their own kind: NaN is ours.
            if not series.isna().any():
                return np.asarray(series.to_numpy(dtype="b1" if kind == "b" else f"{kind}8"))
            return np.asarray(series.astype(object).where(series.notna(), np.nan), dtype=np.float64)
        if kind == "M":
            return np.asarray(series.to_numpy(dtype="datetime64[us]"))  # with a zone: in UTC
        return np.asarray(series.to_numpy())


def _cell(value: Any) -> Any:
    """A value of a mixed column as plain Python."""
    if type(value) is str:
        return value
    if type(value).__name__ in MISSING_TYPES:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, datetime):
        utc = value if value.tzinfo is None else value.astimezone(UTC)
        # The class itself, not pandas' own; what is finer than microseconds is cut.
        return datetime(*utc.timetuple()[:6], utc.microsecond)
    if isinstance(value, timedelta):
        return value / timedelta(days=1)
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, str) or type(value).__name__ in TEXT_TYPES:
        return str(value)
    if isinstance(value, float) and math.isnan(value):
        return None
    return value


def as_frame(given: Any, name: str) -> Frame | None:
    """The DataFrame that this is, or None where it may be a path; anything else is refused."""
    kinds = [(c.__module__.partition(".")[0], c.__name__) for c in type(given).__mro__]
    for library in LIBRARIES:
        if (library, "DataFrame") in kinds:
            return Frame(given, library, name)
        if (library, "Series") in kinds:
            raise InputError(
                f"{name} is one column (a Series): give a DataFrame, with the columns to learn "
                "from."
            )
    if ("polars", "LazyFrame") in kinds:
        raise InputError(f"{name} is a LazyFrame, which has no rows yet: give its .collect().")
    if isinstance(given, str) or hasattr(given, "__fspath__"):
        return None
    shown = f"{type(given).__module__}.{type(given).__name__}".removeprefix("builtins.")
    way = "a DataFrame of pandas or polars, or the path of a file"
    if hasattr(given, "to_pandas"):
        way = "its .to_pandas()"
    elif shown == "numpy.ndarray" or shown.startswith("scipy.sparse"):
        way += "; for arrays there is MDAClassifierCV"
    raise InputError(f"{name} is of type {shown}: give {way}.")


def make_frame(
    library: str | None, columns: Mapping[str, Any], index: Any = None, what: str = "predictions"
) -> Any:
    """A DataFrame of this library, or of one that is installed.

    Parameters
    ----------
    library : {"pandas", "polars"} or None
        Whose; None: pandas, else polars.
    columns : mapping of str to array or sequence
        The columns.
    index : pandas index, default=None
        Of the rows.
    what : str
        For the message where there is no library.
    """
    for name in LIBRARIES if library is None else (library,):
        try:
            module = import_module(name)
        except ImportError:
            continue
        if name == "pandas":
            return module.DataFrame(dict(columns), index=index)
        # polars would hold an array of Python objects as such.
        return module.DataFrame(
            {
                key: values.tolist() if getattr(values, "dtype", "") == "O" else values
                for key, values in columns.items()
            }
        )
    raise InputError(
        f"{what} are given as a DataFrame, and neither pandas nor polars is installed: run pip "
        "install pandas, or write files with marda adapt --out at the command line."
    )
