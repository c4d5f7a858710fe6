"""`check`: files in; how far apart they are, in which columns, and whether it matters out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from marda.adaptation.reading import (
    PathLike,
    Progress,
    ReadOptions,
    Sources,
    Watch,
    data_of,
    input_errors,
    one_naming,
    silent,
    sources_of,
)
from marda.diagnostics.table_shift import Checked, check_rows
from marda.io import InputError, Table

__all__ = ["CheckedTables", "check_files", "check_tables"]


@dataclass(frozen=True)
class CheckedTables:
    """What `check_tables` found.

    Attributes
    ----------
    checked : Checked
        Of the columns that all tables have.
    only_source, only_target : tuples of str
        Columns that the other side has not.
    notes : tuple of str
        Columns that were left out, and what else was decided in reading.
    seconds : float
        Time that it took.
    """

    checked: Checked
    only_source: tuple[str, ...]
    only_target: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "command": "check",
            **self.checked.to_json(),
            "only_source": list(self.only_source),
            "only_target": list(self.only_target),
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
        }


def check_files(
    source: Sources, target: PathLike, options: ReadOptions, *, progress: Progress = silent
) -> CheckedTables:
    """Compare files, the rows of several sources together, with the target.

    Parameters
    ----------
    source, target : paths
        Files, or folders of Parquet files; a list of them gives several sources.
    options : ReadOptions
        Columns and how to read them; the label may be "".
    progress : callable
        Called with the share of the work done and what comes next.
    """
    watch = Watch(progress)
    watch(0.0, "reading")
    tables = options.read([*sources_of(source), target])
    return check_tables(tables, options, watch=watch)


def check_tables(
    tables: Sequence[Table], options: ReadOptions, *, watch: Watch | None = None
) -> CheckedTables:
    """Compare tables, of the sources first and of the target last.

    Columns that not all of them have are told, and left out.
    """
    watch = watch or Watch(silent)
    tables = one_naming(tables, [])
    target, everywhere = tables[-1], set.intersection(*(set(table.names) for table in tables))
    beside = {options.label, options.id, *options.drop}
    only_source = dict.fromkeys(
        name for table in tables[:-1] for name in table.names if name not in everywhere | beside
    )
    only_target = [name for name in target.names if name not in {*tables[0].names} | beside]
    if not everywhere - beside and all(table.block is None for table in tables):
        raise InputError(
            f"{tables[0].path} and {target.path} have no column in common beside the label: give "
            "tables of the same columns."
        )
    chosen = replace(options, drop=(*options.drop, *only_source))
    data = data_of(tables, chosen, hold=True)
    watch(0.3, "comparing")
    rows, labels = (data.Xs, data.Xt), (data.ys, data.yt)
    with input_errors() as notes:
        checked = check_rows(
            (data.tables[0], data.tables[1]),
            rows,
            data.preprocessing.steps,
            labels if options.label else None,
        )
    watch(1.0, "done")
    ignored = "that the source has not are ignored"  # told by name above
    kept = [note for note in data.notes if ignored not in note]
    return CheckedTables(checked, (*only_source,), (*only_target,), (*kept, *notes), watch.seconds)
