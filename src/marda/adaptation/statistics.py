"""Statistics in; a model and predictions in batches out. Rows are never held."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda._progress import Listener, silent
from marda._validation import UNLABELED
from marda.adaptation.methods import AUTO
from marda.adaptation.predicting import predict_rows
from marda.adaptation.reading import (
    LARGEST,
    Outputs,
    PathLike,
    input_errors,
)
from marda.diagnostics.diagnosis import Finding, few_rows, share_findings, wild_scales
from marda.diagnostics.verdict import Facts, next_step, statistics_text
from marda.estimators import MDAClassifier
from marda.estimators.streaming import why_rows
from marda.io import InputError, Preprocessing, replacing
from marda.io.columns import Matrix, Number, Step, check_classes
from marda.moments import Moments
from marda.moments.files import merge_files
from marda.persist import save
from marda.terms import parse_method

#: The method where none is named: the default of rows in memory chooses by them.
DEFAULT = "S1D"
#: A variance below this share of the squared mean is rounding.
ROUNDING = 1e-24
FARTHEST = 3
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
        Rows per class, if predictions were written.
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


def model_for(method: str | None, **parameters: Any) -> tuple[MDAClassifier, tuple[str, ...]]:
    """A classifier that statistics determine, and notes; others are refused before any work."""
    if method == AUTO:
        raise InputError("--method auto needs rows, not statistics alone: name one such as S1D.")
    name, told = method or DEFAULT, f"no --method was named: {DEFAULT} is used"
    given = {key: value for key, value in parameters.items() if value is not None}
    classifier = MDAClassifier(name, unlabeled=None, **given)
    with input_errors():
        parse_method(name)
        if reason := why_rows(classifier):
            raise InputError(f"rows are not held in memory here: {reason}")
    return classifier, () if method else (f"{told}, since choosing one needs rows.",)


def adapt_moments(
    files: Sequence[PathLike],
    outputs: Outputs,
    *,
    scale: str = "none",
    method: str | None = None,
    progress: Listener = silent,
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
        Of `MDAClassifier`; None: `DEFAULT`.
    progress : callable
        Called with the share of the work done and what comes next.
    **parameters
        Of `MDAClassifier`; those that are None have their defaults.
    """
    began = time.perf_counter()
    outputs.check([*files, *([outputs.target] if outputs.target else [])])
    classifier, notes = model_for(method, **parameters)
    progress(0.0, "reading statistics")
    with input_errors():
        moments, _ = merge_files([str(path) for path in files])
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
    progress: Listener,
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
        steps = [Number(name, None, mean, by, written="") for name, mean, by in numbers]
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
    """Refuse numbers whose products float64 cannot hold."""
    largest = np.sqrt(moments.squares.max(axis=0)) + np.abs(moments.shift)
    if not largest.max() <= LARGEST:
        k = int(np.nan_to_num(largest, nan=np.inf).argmax())
        column = repr(names[k]) if names else f"column {k}"
        raise InputError(
            f"{column} holds numbers as large as {largest[k]:.0e}, whose products float64 cannot "
            "hold: divide it by a constant."
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


# What statistics tell about domains --------------------------------------------------------------


@dataclass(frozen=True)
class DomainCounts:
    """Rows of one domain: all, and by label; the rest have none."""

    name: str
    role: str
    n_rows: int
    labelled: dict[str, int]


@dataclass(frozen=True)
class Summary:
    """Row counts, distances of the means, warnings and one sentence.

    Attributes
    ----------
    domains : tuple of DomainCounts
        Sources first.
    distance_before, distance_after : float
        Between the means of source and target, in standard deviations within the domains; the
        root mean square over features.
    farthest : tuple of (str, float)
        Features whose means are farthest apart, and how far.
    findings : tuple of Finding
        Warnings.
    verdict : str
        What is and is not known.
    """

    domains: tuple[DomainCounts, ...]
    distance_before: float
    distance_after: float
    farthest: tuple[tuple[str, float], ...]
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> str:
        """One sentence."""
        return statistics_text(self.n_rows("target"), self.n_labelled_target)

    def n_rows(self, role: str) -> int:
        """Rows of all sources, or of all targets."""
        return sum(d.n_rows for d in self.domains if d.role == role)

    @property
    def n_labelled_target(self) -> int:
        """Target rows with a label."""
        return sum(sum(d.labelled.values()) for d in self.domains if d.role == "target")

    def to_json(self) -> dict[str, Any]:
        """For machines; with the keys of a diagnosis where it has them."""
        return {**asdict(self), "verdict": self.verdict}


def summarize(moments: Moments, estimator: Any, names: Sequence[str]) -> Summary:
    """Everything above for a classifier that was fitted on these moments.

    Parameters
    ----------
    moments : Moments
        Of both sides, with Grams.
    estimator : MDAClassifier
        Fitted on them.
    names : sequence of str
        Features.
    """
    domains = tuple(_domains(moments))
    n_s, sum_s, _ = moments.select(moments.domains >= 0)
    n_t, sum_t, _ = moments.select(moments.domains < 0)
    step = sum_s / n_s - sum_t / n_t
    mean = (sum_s + sum_t) / (n_s + n_t)
    # Scatter within = in all − between the two means, about the common mean.
    within = moments.scatter(mean) - n_s * n_t / (n_s + n_t) * np.outer(step, step)
    variance = np.diag(within) / (n_s + n_t)
    before = _standardized(step, variance, mean)
    W = estimator.W_
    after = _standardized(
        step @ W,
        np.einsum("ij,ij->j", W, within @ W) / (n_s + n_t),
        mean @ W + estimator.offset_,
    )
    order = np.argsort(-np.abs(before), kind="stable")[:FARTHEST]
    return Summary(
        domains,
        _root_mean_square(before),
        _root_mean_square(after),
        tuple((names[i], float(abs(before[i]))) for i in order),
        tuple(_findings(domains, names, step, variance, mean)),
    )


def _domains(moments: Moments) -> list[DomainCounts]:
    found = []
    for number in sorted(set(moments.domains.tolist()), key=lambda n: (n < 0, abs(n))):
        here = moments.domains == number
        labelled = {
            str(moments.classes[code]): int(moments.counts[here & (moments.labels == code)].sum())
            for code in sorted(set(moments.labels[here].tolist()) - {UNLABELED})
        }
        name = moments.domain_names.get(number, str(number))
        role = "source" if number >= 0 else "target"
        found.append(DomainCounts(name, role, int(moments.counts[here].sum()), labelled))
    return found


def _standardized(
    step: NDArray[np.float64], variance: NDArray[np.float64], mean: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Steps in standard deviations; 0 where a feature does not vary within the domains."""
    varies = variance > ROUNDING * mean**2
    return np.divide(
        step,
        np.sqrt(variance, where=varies, out=np.ones_like(step)),
        where=varies,
        out=np.zeros_like(step),
    )


def _root_mean_square(steps: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(steps**2)))


def _findings(
    domains: Sequence[DomainCounts],
    names: Sequence[str],
    step: NDArray[np.float64],
    variance: NDArray[np.float64],
    mean: NDArray[np.float64],
) -> list[Finding]:
    varies = variance > ROUNDING * mean**2
    found = few_rows([(f"domain {d.name}", d.n_rows) for d in domains])
    found += wild_scales(np.sqrt(np.where(varies, variance, 0.0)), names)
    apart = np.flatnonzero(~varies & (np.abs(step) > 1e-9 * np.abs(mean)))
    if apart.size:
        shown = ", ".join(repr(names[i]) for i in apart[:3])
        found.append(
            Finding(
                "leakage",
                f"{shown} is constant in each domain and differs between them, so it tells source "
                "from target in every row: leave it out with --drop.",
            )
        )
    return found
