"""Results as they lie in a folder: tables, boards and findings of all stored rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from marda.experiments import findings, standings
from marda.experiments.folder import STORE
from marda.experiments.plan import MODELS, TABLES, TableName, belongs
from marda.experiments.reproduce import Outcome
from marda.experiments.rows import ResultRow
from marda.experiments.specs import Spec
from marda.experiments.store import Store, StoreError
from marda.experiments.tables import Table, build
from marda.experiments.versus import ContestOutcome

__all__ = ["Stored", "from_outcome", "read_stored"]


@dataclass(frozen=True)
class Stored:
    """What a report is made of; `notes` are what a reader of boards must know."""

    tables: tuple[Table, ...]
    boards: tuple[standings.Board, ...]
    findings: tuple[findings.Finding, ...]
    rows: tuple[ResultRow, ...]
    failures: tuple[ResultRow, ...]
    notes: tuple[str, ...] = ()


def read_stored(folder: Path) -> Stored:
    """Read what ``marda reproduce --out folder`` stored, over all its calls."""
    path = folder / STORE
    if not path.is_file():
        raise StoreError(f"{folder} holds no {STORE}: name the --out folder of marda reproduce.")
    with Store(path) as store:
        rows, failures = tuple(store.rows()), tuple(store.failures())
    if not rows:
        raise StoreError(f"{path} holds no finished row: run marda reproduce again.")
    specs = [row.spec for row in (*rows, *failures)]
    auto = [spec for spec in specs if spec.settings == "auto"]
    plain = [spec for spec in specs if spec.settings != "auto" and spec.model in MODELS]
    checked: tuple[findings.Finding, ...] = ()
    if plain:
        first = plain[0]
        checked = findings.check(rows, first.variant, first.task.preprocessing)
    return Stored(
        tuple(_tables(plain, rows)),
        standings.boards(auto, rows),
        checked,
        rows,
        failures,
        tuple(standings.notes(auto)) if auto else (),
    )


def from_outcome(outcome: Outcome | ContestOutcome) -> Stored:
    """What one call of ``marda reproduce`` asked for."""
    rows, failures = outcome.rows, outcome.failures
    if isinstance(outcome, Outcome):
        return Stored(outcome.tables, (), outcome.findings, rows, failures)
    return Stored((), outcome.boards, (), rows, failures, outcome.notes)


def _tables(specs: Sequence[Spec], rows: Sequence[ResultRow]) -> list[Table]:
    """Every table that the rows give, one a variant of settings and preprocessing."""
    groups: dict[tuple[TableName, str, str], list[Spec]] = {}
    for name in TABLES:
        for spec in specs:
            if belongs(spec, name):
                where = name, spec.variant, spec.task.preprocessing
                groups.setdefault(where, []).append(spec)
    return [build(name, found, rows) for (name, _, _), found in groups.items()]
