"""What a command writes, and refusals before the work of what would fail after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from marda.io import InputError, PredictionWriter
from marda.workflow.data import PathLike

__all__ = ["Outputs", "check_names", "check_predictions"]


def check_names(
    inputs: Sequence[PathLike],
    outputs: Mapping[str, PathLike | None],
    *,
    make_folders: bool = False,
) -> None:
    """Refuse files that would replace each other or an input, and folders, there or missing."""
    taken = {Path(path).resolve(): "" for path in inputs}
    for name, path in outputs.items():
        if path is None:
            continue
        at = Path(path).resolve()
        if at in taken:
            other = taken[at]
            clash = f"{other} and {name} both name {path}." if other else ""
            raise InputError(clash or f"{name} {path} would replace an input file.")
        taken[at] = name
        if at.is_dir():
            raise InputError(f"{name} {path} is a folder: give the name of a file.")
        if not (make_folders or at.parent.is_dir()):
            raise InputError(f"{name} {path}: there is no folder {Path(path).parent}.")


def check_predictions(out: PathLike | None) -> None:
    """Refuse names that predictions cannot be written under."""
    if out is not None:
        PredictionWriter(Path(out), np.empty(0), None)


@dataclass(frozen=True)
class Outputs:
    """What is written: predictions of the rows of `target` to `out`, and the model.

    Attributes
    ----------
    target : path or None
        Rows to predict; a file, or a folder of Parquet files.
    format, id : str or None
        Of the target: its format, and the column that is carried through.
    out, model : paths or None
        Where predictions and the model go. Both are written, or none is.
    """

    target: PathLike | None = None
    format: str | None = None
    id: str | None = None
    out: PathLike | None = None
    model: PathLike | None = None

    def check(self, inputs: Sequence[PathLike]) -> None:
        """Refuse before the work what would fail after it."""
        check_names(inputs, {"--out": self.out, "--model": self.model}, make_folders=True)
        if self.out is not None and self.target is None:
            raise InputError("--out without --target: name the file whose rows to predict.")
        check_predictions(self.out)

    @property
    def files(self) -> tuple[str, ...]:
        """What is there in the end."""
        return tuple(str(path) for path in (self.out, self.model) if path is not None)
