"""Two files in; predictions and a model file out."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.diagnostics import Diagnosis, diagnose
from marda.estimators import MDAClassifier
from marda.io import InputError, PredictionWriter, Preprocessing
from marda.persist import save
from marda.workflow.data import (
    PathLike,
    Progress,
    ReadOptions,
    input_errors,
    read_data,
    silent,
)

__all__ = ["Adapted", "adapt", "class_codes"]


@dataclass(frozen=True)
class Adapted:
    """What `adapt` did.

    Attributes
    ----------
    model : MDAClassifier
        Fitted; `preprocessing` turns tables into its rows.
    predictions, probabilities : arrays
        For the rows of the target, in their order.
    diagnosis : Diagnosis
        Distances, warnings and the verdict.
    """

    model: MDAClassifier
    preprocessing: Preprocessing
    predictions: NDArray[Any]
    probabilities: NDArray[np.float64]
    diagnosis: Diagnosis
    n_source: int
    n_target: int
    n_labelled_target: int
    seconds: float
    notes: tuple[str, ...]
    files: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        classes = self.model.classes_.tolist()
        return {
            "command": "adapt",
            "method": self.model.method,
            "setting": self.model.setting_,
            "classifier": self.model.classifier,
            "rows": {
                "source": self.n_source,
                "target": self.n_target,
                "labelled_target": self.n_labelled_target,
            },
            "features": int(self.model.n_features_in_),
            "classes": classes,
            "predicted": {str(c): int((self.predictions == c).sum()) for c in classes},
            "diagnosis": self.diagnosis.to_json(),
            "notes": list(self.notes),
            "files": list(self.files),
            "seconds": round(self.seconds, 3),
        }


def class_codes(classes: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.int64]:
    """Places of labels in the sorted classes."""
    return np.searchsorted(classes, labels).astype(np.int64)


def adapt(
    source: PathLike,
    target: PathLike,
    options: ReadOptions,
    *,
    out: PathLike | None = None,
    model: PathLike | None = None,
    progress: Progress = silent,
    **parameters: Any,
) -> Adapted:
    """Learn from two files a classifier for the second.

    Parameters
    ----------
    source, target : paths
        Labelled rows; rows to classify, of which some may have a label.
    options : ReadOptions
        Columns and how to read them.
    out, model : paths, default=None
        Where to write predictions and the model. Both are written, or none is.
    progress : callable
        Called with the share of the work done and what comes next.
    **parameters
        Of `MDAClassifier`.

    Returns
    -------
    Adapted
    """
    began = time.perf_counter()
    with ExitStack() as stack:
        progress(0.0, "reading")
        _check_names(source, target, out, model)
        data = read_data(source, target, options)
        progress(0.2, "adapting")
        with input_errors() as notes:
            X, y, domain, mark = data.packed()
            classifier = MDAClassifier(unlabeled=mark, **parameters)
            classifier.fit(X, y, sample_domain=domain)
            progress(0.6, "predicting")
            predictions = classifier.predict(data.Xt)
            P = classifier.predict_proba(data.Xt)
            progress(0.7, "checking")
            diagnosis = diagnose(
                data.Xs,
                data.Xt,
                classifier,
                names=data.preprocessing.features,
                labels=data.ys,
                predicted=predictions,
            )
        classifier.preprocessing_ = data.preprocessing.to_json()
        progress(0.95, "writing")
        if out is not None:
            writer = PredictionWriter(Path(out), classifier.classes_, options.id)
            stack.enter_context(writer)
            writer.write(data.ids, class_codes(classifier.classes_, predictions), P)
        if model is not None:
            save(classifier, model)
    progress(1.0, "done")
    return Adapted(
        classifier,
        data.preprocessing,
        predictions,
        P,
        diagnosis,
        len(data.ys),
        len(data.yt),
        int(data.known.sum()),
        time.perf_counter() - began,
        (*data.notes, *notes, *_notes(out, model)),
        tuple(str(path) for path in (out, model) if path is not None),
    )


def _check_names(
    source: PathLike, target: PathLike, out: PathLike | None, model: PathLike | None
) -> None:
    """Refuse before the work what would fail after it."""
    given = [Path(p).resolve() for p in (source, target)]
    for name, path in (("--out", out), ("--model", model)):
        if path is not None and Path(path).resolve() in given:
            raise InputError(f"{name} {path} would replace an input file.")
    if out is not None:
        PredictionWriter(Path(out), np.empty(0), None)
        if model is not None and Path(out).resolve() == Path(model).resolve():
            raise InputError(f"--out and --model both name {out}.")


def _notes(out: PathLike | None, model: PathLike | None) -> list[str]:
    if out is None and model is None:
        return ["nothing was written: name files with --out and --model."]
    return []
