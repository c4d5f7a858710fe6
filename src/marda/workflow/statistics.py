"""Statistics in; a model and predictions in batches out. Rows are never held."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda._validation import UNLABELED
from marda.diagnostics.verdict import Facts, next_step
from marda.diagnostics.warnings import share_findings
from marda.estimators import MDAClassifier
from marda.io import InputError, Preprocessing, replacing
from marda.io.labels import check_classes
from marda.io.steps import Matrix, Number, Step
from marda.moments import Moments
from marda.moments.files import merge_files
from marda.persist import save
from marda.terms import parse_method
from marda.workflow.data import LARGEST, PathLike, Progress, input_errors, silent
from marda.workflow.methods import chosen_method
from marda.workflow.outputs import Outputs
from marda.workflow.predicting import predict_rows
from marda.workflow.summary import ROUNDING, Summary, summarize

__all__ = ["AdaptedFromStatistics", "adapt_moments", "fit_statistics", "model_for"]

NOT_CALIBRATED = "probabilities are a softmax of scores, not calibrated."
NO_ROWS = (
    "A-distance, MMD and warnings about single rows need rows in memory, and are not given; "
    "counts and means are."
)


@dataclass(frozen=True)
class AdaptedFromStatistics:
    """What `adapt` did without holding rows.

    Attributes
    ----------
    model : MDAClassifier
        Fitted; `preprocessing` turns tables into its rows.
    summary : Summary
        Row counts, distances of means, warnings and the verdict.
    predicted : dict or None
        Rows a class, if predictions were written.
    """

    model: MDAClassifier
    preprocessing: Preprocessing
    summary: Summary
    predicted: dict[Any, int] | None
    seconds: float
    notes: tuple[str, ...]
    files: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """For machines; keys as for rows in memory."""
        counts = self.predicted
        return {
            "command": "adapt",
            "method": self.model.method,
            "setting": self.model.setting_,
            "classifier": self.model.classifier,
            "from_statistics": True,
            "rows": {
                "source": self.summary.n_rows("source"),
                "target": self.summary.n_rows("target"),
                "labelled_target": self.summary.n_labelled_target,
            },
            "features": int(self.model.n_features_in_),
            "classes": self.model.classes_.tolist(),
            "predicted": None if counts is None else {str(c): n for c, n in counts.items()},
            "diagnosis": self.summary.to_json(),
            "notes": list(self.notes),
            "files": list(self.files),
            "seconds": round(self.seconds, 3),
        }


def model_for(
    method: str | None, mark: Any, **parameters: Any
) -> tuple[MDAClassifier, tuple[str, ...]]:
    """A classifier that statistics determine, and notes; others are refused before any work."""
    name, notes = chosen_method(method, rows=False)
    classifier = MDAClassifier(name, unlabeled=mark, **parameters)
    with input_errors():
        parse_method(name)
        reason = classifier._why_rows()
        if reason:
            raise InputError(f"rows are not held in memory here: {reason}")
    return classifier, notes


def adapt_moments(
    files: Sequence[PathLike],
    outputs: Outputs,
    *,
    scale: str = "none",
    method: str | None = None,
    progress: Progress = silent,
    **parameters: Any,
) -> AdaptedFromStatistics:
    """Learn from moments files alone; columns and label names are those of the files.

    Parameters
    ----------
    files : sequence of paths
        Of `marda moments build` or `Moments.save`; of sources and of targets.
    outputs : Outputs
        What to write; rows of its target are predicted, not learned from.
    scale : {"none", "standard"}
        Whether numbers are brought to mean 0 and standard deviation 1.
    method : str, default=None
        Of `MDAClassifier`; None: `chosen_method`.
    progress : callable
        Called with the share of the work done and what comes next.
    **parameters
        Of `MDAClassifier`.
    """
    began = time.perf_counter()
    outputs.check([*files, *([outputs.target] if outputs.target else [])])
    classifier, notes = model_for(method, None, **parameters)
    progress(0.0, "reading statistics")
    with input_errors():
        moments = merge_files([str(path) for path in files])
    _check_sides(moments)
    result = fit_statistics(
        moments, classifier, outputs, scale=scale, label="", progress=progress, start=0.2
    )
    notes = (*notes, *result.notes)
    return replace(result, notes=notes, seconds=time.perf_counter() - began)


def fit_statistics(
    moments: Moments,
    classifier: MDAClassifier,
    outputs: Outputs,
    *,
    scale: str,
    label: str,
    progress: Progress,
    start: float,
) -> AdaptedFromStatistics:
    """Solve, look at the statistics, predict in batches and write; `start` of the work is done."""
    began = time.perf_counter()
    progress(start, "adapting")
    names = None if moments.feature_names is None else [str(n) for n in moments.feature_names]
    _check_size(moments, names)
    moments, center, deviation = _scaled(replace(moments, feature_names=None), scale)
    steps: list[Step]
    if names is None:
        steps = [
            Matrix(len(center), center=tuple(center.tolist()), scale=tuple(deviation.tolist()))
        ]
    else:
        numbers = zip(names, center.tolist(), deviation.tolist(), strict=True)
        steps = [Number(name, None, *number) for name, *number in numbers]
    chosen = Preprocessing(tuple(steps), label, outputs.id)
    with input_errors() as said:
        classifier.fit_moments(moments)
        summary = summarize(moments, classifier, chosen.features)
    classifier.preprocessing_ = chosen.to_json()
    counts = None
    with ExitStack() as stack:
        if outputs.model is not None:
            # It gets its name when the predictions are there too.
            save(classifier, stack.enter_context(replacing(outputs.model)))
        if outputs.out is not None and outputs.target is not None:
            counts = predict_rows(
                classifier,
                chosen,
                outputs.target,
                outputs.out,
                format=outputs.format,
                id=outputs.id,
                progress=lambda done, what: progress(
                    start + (1 - start) * done, f"predicting, {what}"
                ),
            )
            sizes = summary.n_rows("source"), summary.n_rows("target"), summary.n_labelled_target
            advice = next_step(Facts(*sizes))
            found = share_findings(classifier.classes_, *_shares(moments, counts), advice)
            summary = replace(summary, findings=(*summary.findings, *found))
    progress(1.0, "done")
    notes = [*said, NO_ROWS]
    if counts is not None:
        notes.append(NOT_CALIBRATED)
    if not outputs.files:
        notes.append("nothing was written: name files with --out and --model.")
    return AdaptedFromStatistics(
        classifier,
        chosen,
        summary,
        counts,
        time.perf_counter() - began,
        tuple(notes),
        outputs.files,
    )


def _check_sides(moments: Moments) -> None:
    """Statistics of labelled sources and of a target."""
    source = moments.domains >= 0
    if source.all():
        raise InputError(
            "no file holds statistics of a target: build them with marda moments build --role "
            "target, and name that file too."
        )
    if not source.any():
        raise InputError(
            "no file holds statistics of a source: build them with marda moments build --role "
            "source --label COL, and name that file too."
        )
    bare = moments.domains[source & (moments.labels == UNLABELED)]
    if len(bare):
        name = moments.domain_names.get(int(bare[0]), str(bare[0]))
        raise InputError(
            f"source {name} has rows without a label: build its statistics with --label COL."
        )
    if moments.classes.dtype.kind in "iuf":
        counts = np.bincount(moments.labels[source], weights=moments.counts[source])
        check_classes("the statistics", "of labels", counts[counts > 0].astype(np.int64))


def _check_size(moments: Moments, names: Sequence[str] | None) -> None:
    """Numbers whose products no computer number holds."""
    largest = np.sqrt(moments.squares.max(axis=0)) + np.abs(moments.shift)
    if not largest.max() <= LARGEST:
        k = int(np.nan_to_num(largest, nan=np.inf).argmax())
        column = repr(names[k]) if names else f"column {k}"
        raise InputError(
            f"{column} holds numbers as large as {largest[k]:.0e}, whose products no computer "
            "number holds: divide it by a constant."
        )


def _scaled(
    moments: Moments, scale: str
) -> tuple[Moments, NDArray[np.float64], NDArray[np.float64]]:
    """Statistics of (x − center) / deviation; of the rows as they are unless `scale` says so."""
    d = moments.n_features
    if scale == "none":
        return moments, np.zeros(d), np.ones(d)
    n = moments.counts.sum()
    step = moments.sums.sum(0) / n
    center = moments.shift + step
    variance = moments.squares.sum(0) / n - step**2
    deviation = np.sqrt(np.where(variance > ROUNDING * center**2, variance, 1.0))
    about = replace(moments.shifted(center), shift=np.zeros(d))
    over = 1 / deviation

    def both(gram: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
        return None if gram is None else gram * over[:, None] * over

    scaled = replace(
        about,
        sums=about.sums * over,
        squares=about.squares * over**2,
        gram=both(about.gram),
        gram_labelled=both(about.gram_labelled),
        class_grams=both(about.class_grams),
    )
    return scaled, center, deviation


def _shares(
    moments: Moments, counts: dict[Any, int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Share of every class among source rows, and among predictions."""
    source = np.zeros(len(moments.classes))
    here = moments.domains >= 0
    np.add.at(source, moments.labels[here], moments.counts[here])
    predicted = np.array(list(counts.values()), dtype=np.float64)
    return source / source.sum(), predicted / predicted.sum()
