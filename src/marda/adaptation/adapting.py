"""`adapt`: files in; predictions, a model and a report out; in memory, or else in batches."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._memory import format_bytes
from marda._progress import listening
from marda.adaptation.judgement import FEW_LABELS, Judgement, judge
from marda.adaptation.methods import (
    classes_and_probabilities,
    classifier_of,
    make_classifier,
    method_of,
    sample_notes,
)
from marda.adaptation.reading import (
    Data,
    Outputs,
    PathLike,
    Progress,
    ReadOptions,
    Sources,
    Watch,
    check_names,
    check_predictions,
    input_errors,
    is_parquet,
    memory_budget,
    names_of,
    read_data,
    refuse_report,
    rows_size,
    silent,
    sources_of,
)
from marda.adaptation.statistics import AdaptedFromStatistics
from marda.adaptation.stream import Cluster, adapt_streaming, quiet
from marda.diagnostics import Diagnosis, Evidence, diagnose, gather
from marda.io import InputError, PredictionWriter, Preprocessing
from marda.io.atomic import replacing
from marda.persist import save

__all__ = ["Adapted", "adapt", "adapt_rows", "why_in_batches"]


@dataclass(frozen=True)
class Adapted:
    """What `adapt` did with rows in memory.

    Attributes
    ----------
    model : MDAClassifier or MDAClassifierCV
        Fitted; `preprocessing` turns tables into its rows.
    predictions, probabilities : arrays
        For the rows of the target, in their order.
    diagnosis : Diagnosis
        Distances, warnings and the verdict.
    inputs : tuple of str
        Names of the files of the source, and of the target.
    times : tuple of (str, float)
        Seconds per step.
    evidence, judgement : Evidence and Judgement, or None
        What a report shows; the second only where the target has labels.
    """

    model: Any
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
    inputs: tuple[str, str]
    times: tuple[tuple[str, float], ...] = ()
    evidence: Evidence | None = None
    judgement: Judgement | None = None

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        classes = self.model.classes_.tolist()
        return {
            "command": "adapt",
            "method": method_of(self.model),
            "setting": self.model.setting_,
            "classifier": classifier_of(self.model),
            "rows": {
                "source": self.n_source,
                "target": self.n_target,
                "labelled_target": self.n_labelled_target,
            },
            "features": int(self.model.n_features_in_),
            "classes": classes,
            "calibration": dict(getattr(self.model, "calibration_", {})),
            "predicted": {str(c): int((self.predictions == c).sum()) for c in classes},
            "diagnosis": self.diagnosis.to_json(),
            "notes": list(self.notes),
            "files": list(self.files),
            "seconds": round(self.seconds, 3),
        }


def adapt(
    source: Sources,
    target: PathLike,
    options: ReadOptions,
    *,
    out: PathLike | None = None,
    model: PathLike | None = None,
    report: tuple[PathLike, Callable[[Adapted], str]] | None = None,
    memory: str | None = None,
    cluster: Cluster | None = None,
    announce: Callable[[str], None] = quiet,
    progress: Progress = silent,
    method: str | None = None,
    **parameters: Any,
) -> Adapted | AdaptedFromStatistics:
    """Learn from two files a classifier for the second.

    Rows that fit into `memory` are held there. Parquet files beyond it are read in batches, and
    give the model of all their rows to rounding; other files beyond it are refused.

    Parameters
    ----------
    source, target : paths
        Labelled rows, in a list of files one source each; rows to classify, of which some may have
        a label.
    options : ReadOptions
        Columns and how to read them.
    out, model : paths, default=None
        Where to write predictions and the model.
    report : path and function, default=None
        Where to write what the function makes of the result, which needs rows in memory. All files
        are written, or none is.
    memory : str, default=None
        What rows may take: "4GB", "30%" of the free memory, or a quarter of it.
    cluster : Cluster, default=None
        Read row groups of Parquet files on its workers, whatever their size.
    announce : callable
        Called with sentences about a pass in batches before it begins.
    progress : callable
        Called with the share of the work done and what comes next.
    method : str, default=None
        "auto", or one of `MDAClassifier`; None: "auto", or "S1D" with parameters or in batches.
    **parameters
        Of `MDAClassifier`; those that are None have their defaults.

    Returns
    -------
    Adapted or AdaptedFromStatistics
        The second where rows were read in batches.
    """
    reason = None if cluster is not None else why_in_batches(source, target, options, memory)
    if cluster is None and reason is None:
        return _adapt_in_memory(
            source, target, options, out, model, report, progress, method, **parameters
        )
    refuse_report(report, "rows are not held in memory here")
    return adapt_streaming(
        source,
        target,
        options,
        Outputs(target, options.format, options.id, out, model),
        memory=memory,
        cluster=cluster,
        method=method,
        reason=reason,
        announce=announce,
        progress=progress,
        **parameters,
    )


def why_in_batches(
    source: Sources, target: PathLike, options: ReadOptions, memory: str | None = None
) -> str | None:
    """Why rows have to be read in batches, or None if they fit into memory.

    Parameters
    ----------
    source, target : paths
        Files, or folders of Parquet files; a list of them gives several sources.
    options : ReadOptions
        Columns and how to read them.
    memory : str or None
        "4GB", "30%" of the free memory, or a quarter of it.
    """
    budget = memory_budget(memory)
    left_out = {options.label, options.id, *options.drop}
    sizes = [
        (path, rows_size(path, options.format, left_out)) for path in (*sources_of(source), target)
    ]
    total = sum(size for _, size in sizes)
    if total <= budget:
        return None
    why = f"more than the {format_bytes(budget)} that rows may take (--memory)"
    for path, size in sizes:
        if size and not is_parquet(path, options.format):
            raise InputError(
                f"{path} is too large ({format_bytes(size)}; with the others "
                f"{format_bytes(total)}, {why}): convert it to Parquet, which is read in batches, "
                "or allow more memory."
            )
    return f"the rows take {format_bytes(total)}, {why}, so they are read in batches."


def _adapt_in_memory(
    source: Sources,
    target: PathLike,
    options: ReadOptions,
    out: PathLike | None,
    model: PathLike | None,
    report: tuple[PathLike, Callable[[Adapted], str]] | None,
    progress: Progress,
    method: str | None,
    **parameters: Any,
) -> Adapted:
    """`adapt` with all rows at once."""
    watch = Watch(progress)
    with ExitStack() as stack:
        watch(0.0, "reading")
        page = None if report is None else report[0]
        check_predictions(out)
        check_names(
            (*sources_of(source), target), {"--out": out, "--model": model, "--report": page}
        )
        data = read_data(source, target, options)
        names = names_of(source), Path(target).name
        result = adapt_rows(
            data, names, method, judged=report is not None, watch=watch, **parameters
        )
        fitted = result.model
        watch(0.95, "writing")
        if out is not None:
            writer = PredictionWriter(Path(out), fitted.classes_, options.id)
            stack.enter_context(writer)
            codes = np.searchsorted(fitted.classes_, result.predictions).astype(np.int64)
            writer.write(data.ids, codes, result.probabilities)
        result = replace(
            result,
            seconds=watch.seconds,
            notes=(*result.notes, *_notes(out, model, page)),
            files=tuple(str(path) for path in (out, model, page) if path is not None),
            times=tuple(watch.times),
        )
        if report is not None:
            text = report[1](result)
            stack.enter_context(replacing(report[0])).write_text(text, encoding="utf-8")
        if model is not None:
            save(fitted, model)
    watch(1.0, "done")
    return result


def adapt_rows(
    data: Data,
    names: tuple[str, str],
    method: str | None = None,
    *,
    judged: bool = True,
    watch: Watch | None = None,
    **parameters: Any,
) -> Adapted:
    """Learn from rows in memory a classifier for those of the target.

    Parameters
    ----------
    data : Data
        Rows of all sources and of the target.
    names : tuple of str
        What source and target are called on a page.
    method : str, default=None
        "auto", or one of `MDAClassifier`; None: "auto", or "S1D" with parameters.
    judged : bool, default=True
        Gather what a report shows. Labelled target rows judge, if there are enough: five more fits.
    watch : Watch, default=None
        Told of every step.
    **parameters
        Of `MDAClassifier`; those that are None have their defaults.
    """
    watch = watch or Watch(silent)
    watch(0.0, "adapting")
    long = judged and int(data.known.sum()) >= FEW_LABELS  # then it is fitted once per fold
    fit_end = 0.15 if long else 0.85
    evidence = judgement = None
    with input_errors() as notes:
        X, y, domain, mark = data.packed()
        fitted = make_classifier(method, mark, **parameters)
        with listening(watch.progress, 0.0, fit_end):
            fitted.fit(X, y, sample_domain=domain)
        if getattr(fitted, "shift_", None) is not None:
            fitted.shift_ = fitted.shift_.with_names(data.preprocessing.features)
        watch(fit_end, "predicting")
        codes, P = classes_and_probabilities(fitted, data.Xt)
        predictions = fitted.classes_[codes]
        watch(fit_end + 0.01, "checking")
        facts: dict[str, Any] = {
            "names": data.preprocessing.features,
            "labels": data.ys,
            "predicted": predictions,
            "source_domain": data.source_domain,
        }
        known = int(data.known.sum())
        diagnosis = diagnose(data.Xs, data.Xt, fitted, n_labelled=known, **facts)
        if judged:
            watch(fit_end + 0.04, "judging")
            evidence = gather(data.Xs, data.Xt, fitted, probabilities=P, **facts)
            judgement = judge(data, fitted, progress=watch.between(fit_end + 0.04, 0.95))
    fitted.preprocessing_ = _with_means(data.preprocessing, data.Xt).to_json()
    return Adapted(
        fitted,
        data.preprocessing,
        predictions,
        P,
        diagnosis,
        len(data.ys),
        len(data.yt),
        known,
        watch.seconds,
        (*data.notes, *notes, *sample_notes(fitted, domain)),
        (),
        names,
        tuple(watch.times),
        evidence,
        judgement,
    )


def _with_means(chosen: Preprocessing, X: Any) -> Preprocessing:
    """With the mean row of the target, for explanations; sparse rows are told from nothing."""
    if sp.issparse(X):
        return chosen
    return replace(chosen, means=tuple(float(f"{mean:.6g}") for mean in X.mean(0)))


def _notes(*paths: PathLike | None) -> list[str]:
    if all(path is None for path in paths):
        return ["nothing was written: name files with --out, --model and --report."]
    return []
