"""What a command writes, and refusals before the work of what would fail after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from marda.io import InputError, PredictionWriter
from marda.workflow.data import PathLike

__all__ = ["Outputs"]


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
        given = [Path(p).resolve() for p in inputs]
        for name, path in (("--out", self.out), ("--model", self.model)):
            if path is None:
                continue
            if Path(path).resolve() in given:
                raise InputError(f"{name} {path} would replace an input file.")
            if Path(path).is_dir():
                raise InputError(f"{name} {path} is a folder: give the name of a file.")
        if self.out is None:
            return
        if self.target is None:
            raise InputError("--out without --target: name the file whose rows to predict.")
        PredictionWriter(Path(self.out), np.empty(0), None)  # refuses names that it cannot write
        if self.model is not None and Path(self.out).resolve() == Path(self.model).resolve():
            raise InputError(f"--out and --model both name {self.out}.")

    @property
    def files(self) -> tuple[str, ...]:
        """What is there in the end."""
        return tuple(str(path) for path in (self.out, self.model) if path is not None)
