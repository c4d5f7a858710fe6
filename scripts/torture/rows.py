"""What was tried, and what came of it."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from scripts.torture.outcome import Outcome

__all__ = ["Row", "Tally"]


class Row(NamedTuple):
    """Counts of one kind of trial."""

    what: str
    tried: int
    right: int
    refused: int
    wrong: int
    crashed: int


class Tally:
    """Collects outcomes under a name, with the causes of those that must not be."""

    OUTCOMES = ("right", "refused", "wrong", "crashed")

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}
        self._causes: dict[tuple[str, str], list[str]] = {}

    def add(self, what: str, outcome: str, cause: str = "", example: str = "") -> None:
        """One trial: `outcome` is one of OUTCOMES."""
        assert outcome in self.OUTCOMES
        self._counts.setdefault(what, Counter())[outcome] += 1
        if outcome in ("wrong", "crashed"):
            self._causes.setdefault((outcome, cause), []).append(example)

    def replace_example(self, outcome: str, cause: str, example: str) -> None:
        """Show a simpler one."""
        self._causes[outcome, cause][0] = example

    def rows(self) -> list[Row]:
        """One row per name, in the order of their names."""
        return [
            Row(what, sum(count.values()), *(count[name] for name in self.OUTCOMES))
            for what, count in sorted(self._counts.items())
        ]

    def causes(self) -> list[str]:
        """What must not be, the most frequent first, each with an example to run again."""
        ordered = sorted(self._causes.items(), key=lambda item: -len(item[1]))
        return [
            f"{len(examples)} × {outcome}: {cause}\n    e.g. {examples[0]}"
            for (outcome, cause), examples in ordered
        ]

    def outcome(self) -> Outcome:
        """The table, and what must not be."""
        return Outcome(Row._fields, self.rows(), failures=self.causes())
