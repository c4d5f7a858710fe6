"""`adapt`: files in; predictions, a model and a report out; in memory, or else in batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import KFold

from marda._machine import format_bytes
from marda._order import row_order
from marda._progress import Listener, Watch, Work, listening, silent, step
from marda.adaptation.methods import (
    AUTO,
    Weights,
    classes_and_probabilities,
    classifier_of,
    fit_on_device,
    make_classifier,
    method_of,
    sample_notes,
)
from marda.adaptation.predicting import predict_rows
from marda.adaptation.reading import (
    Data,
    Outputs,
    PathLike,
    ReadOptions,
    Sources,
    data_of,
    input_errors,
    is_parquet,
    memory_budget,
    names_of,
    read_data,
    refuse_report,
    rows_size,
    sources_of,
)
from marda.adaptation.statistics import AdaptedFromStatistics
from marda.adaptation.stream import (
    Cluster,
    FileRows,
    adapt_streaming,
    draw_from_files,
    open_parts,
    quiet,
    read_errors,
    refuse_other_formats,
)
from marda.diagnostics.diagnosis import Diagnosis, Evidence, diagnose, gather
from marda.diagnostics.evaluation import mcnemar
from marda.diagnostics.influence import Influence, is_exact, overall_influence, parts_of
from marda.diagnostics.intervals import gain_right, share_right
from marda.diagnostics.verdict import FEW_LABELS, Judgement
from marda.estimators import MDAClassifier
from marda.io import InputError, PredictionWriter, Preprocessing
from marda.io.writing import replacing
from marda.moments.features import RestOfRows
from marda.persist import save
from marda.selection.inputs import SILENT, silent_columns_note
from marda.selection.labelling import choose_rows

TO_LABEL = 20
#: Up to so many features, the influence of columns on a model that is not linear is sampled.
WIDE = 500
FOLDS = 5
#: Operations of one fit from which on a fifth of the labels judges alone.
EXPENSIVE_FIT = 1e10
#: Rows per file that everything is chosen on where rows are read in batches.
SAMPLE_ROWS = 10_000


@dataclass(frozen=True)
class RowToLabel:
    """A target row whose label would tell much: its id, or where it stands in the file."""

    name: str
    predicted: str
    probability: float
    reason: str


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
    influence : tuple of Influence
        Columns and words that move scores most, for a report; empty where the model is not linear
        and has more than 500 features.
    label_first : tuple of RowToLabel
        For a report: rows to label, the most telling one first.
    python : bool
        Whether sentences name keywords and methods, not options and commands.
    predicted : dict or None
        Rows per predicted class where rows were read in batches: `predictions` and all above but
        the numbers of rows are then of a sample.
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
    influence: tuple[Influence, ...] = ()
    label_first: tuple[RowToLabel, ...] = ()
    python: bool = False
    predicted: dict[Any, int] | None = None

    @property
    def n_predicted(self) -> dict[Any, int]:
        """Rows per predicted class, of all target rows."""
        if self.predicted is not None:
            return self.predicted
        classes = self.model.classes_.tolist()
        return {c: int((self.predictions == c).sum()) for c in classes}

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
            "predicted": {str(c): n for c, n in self.n_predicted.items()},
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
    card: tuple[PathLike, Callable[[Adapted], str]] | None = None,
    plots: tuple[PathLike, Callable[[Adapted], Mapping[str, bytes]]] | None = None,
    memory: str | None = None,
    cluster: Cluster | None = None,
    device: str | None = None,
    announce: Callable[[str], None] = quiet,
    progress: Listener = silent,
    method: str | None = None,
    **parameters: Any,
) -> Adapted | AdaptedFromStatistics:
    """Learn from two files a classifier for the second.

    Rows that fit into `memory` are held there. Parquet files beyond it are read in batches: "auto"
    chooses on a sample and learns from sums over all rows, other methods give the model of all rows
    to rounding. Other files beyond it are refused.

    Parameters
    ----------
    source, target : paths
        Labelled rows, in a list of files one source each; rows to classify, of which some may have
        a label.
    options : ReadOptions
        Columns and how to read them.
    out, model : paths, default=None
        Where to write predictions and the model.
    report, card : path and function, default=None
        Where to write what the function makes of the result, which needs rows in memory. All files
        are written, or none is.
    plots : path and function, default=None
        The same for a folder: the function gives the content of every file in it.
    memory : str, default=None
        What rows may take: "4GB", "30%" of the free memory, or a quarter of it.
    cluster : Cluster, default=None
        Read row groups of Parquet files on its workers, whatever their size.
    device : str, default=None
        Where models are fitted, by torch's name of it ("cuda", "cuda:1", "cpu"), on dense rows that
        fit into memory; None: by numpy.
    announce : callable
        Called with sentences about a pass in batches before it begins.
    progress : callable
        Called with the share of the work done and what comes next.
    method : str, default=None
        "auto", or one of `MDAClassifier`; None: "auto", or "S1D" with parameters.
    **parameters
        Of `MDAClassifier`; those that are None have their defaults.

    Returns
    -------
    Adapted or AdaptedFromStatistics
        The second where rows were read in batches for a method that was named.
    """
    outputs = Outputs(target, options.format, options.id, out, model, report, card, plots)
    reason = None if cluster is not None else why_in_batches(source, target, options, memory)
    if cluster is None and reason is None:
        return _adapt_in_memory(
            source, target, options, outputs, progress, method, device=device, **parameters
        )
    if device is not None:
        raise InputError(
            "--device is for rows that are held in memory, and these are read in batches: leave "
            "it out."
        )
    for name, wanted in outputs.shown.items():
        refuse_report(wanted, "rows are not held in memory here", name)
    if method_of(make_classifier(method, None, **parameters)) == AUTO:
        return _adapt_sampled(
            source, target, options, outputs, memory, cluster, reason, announce, progress
        )
    return adapt_streaming(
        source,
        target,
        options,
        outputs,
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
        (path, rows_size(path, options.format, left_out, budget))
        for path in (*sources_of(source), target)
    ]
    total = sum(size for _, size in sizes)
    if total <= budget:
        return None
    why = f"more than the {format_bytes(budget)} that rows may take (--memory)"
    for path, size in sizes:
        if size and not is_parquet(path, options.format):
            raise InputError(
                f"{path} is too large (at least {format_bytes(size)}; with the others "
                f"{format_bytes(total)}, {why}): convert it to Parquet, which is read in batches, "
                "or allow more memory."
            )
    return f"the rows take {format_bytes(total)}, {why}, so they are read in batches."


def _adapt_in_memory(
    source: Sources,
    target: PathLike,
    options: ReadOptions,
    outputs: Outputs,
    progress: Listener,
    method: str | None,
    **parameters: Any,
) -> Adapted:
    """`adapt` with all rows at once."""
    watch = Watch(progress)
    judged = bool(outputs.shown)
    with ExitStack() as stack:
        watch(0.0, "reading")
        outputs.check((*sources_of(source), target), make_folders=False)
        data = read_data(source, target, options)
        called = names_of(source), Path(target).name
        result = adapt_rows(data, called, method, judged=judged, watch=watch, **parameters)
        fitted = result.model
        watch(watch.done, "writing")
        if outputs.out is not None:
            writer = PredictionWriter(Path(outputs.out), fitted.classes_, options.id)
            stack.enter_context(writer)
            codes = np.searchsorted(fitted.classes_, result.predictions).astype(np.int64)
            writer.write(data.ids, codes, result.probabilities)
        result = replace(
            result,
            seconds=watch.seconds,
            notes=(*result.notes, *_notes(outputs)),
            files=outputs.files,
            times=tuple(watch.times),
        )
        for path, content in outputs.pages(result):
            stack.enter_context(replacing(path)).write_bytes(content)
        if outputs.model is not None:
            save(fitted, outputs.model)
    watch(1.0, "done")
    return result


def _adapt_sampled(
    source: Sources,
    target: PathLike,
    options: ReadOptions,
    outputs: Outputs,
    memory: str | None,
    cluster: Cluster | None,
    reason: str | None,
    announce: Callable[[str], None],
    progress: Listener,
) -> Adapted:
    """The default on Parquet files in batches: choices on a sample, sums over all rows."""
    watch = Watch(progress)
    sources = sources_of(source)
    outputs.check([*sources, target])
    refuse_other_formats([*sources, target], options.format)
    notes = () if reason is None else (reason,)
    with ExitStack() as stack:
        with read_errors():
            if cluster is not None:
                stack.enter_context(cluster.client())
            watch(0.0, "reading labels")
            parts, labels, ignored = open_parts(sources, target, options, memory, None)
            for note in notes:
                announce(note)
            draw = draw_from_files(parts, labels, SAMPLE_ROWS)
            n_rows = int(draw.counts.sum())
            watch(0.05, "drawing a sample")
            tables = draw.tables(lambda done: progress(0.05 + 0.1 * done / n_rows, "drawing"))
            data = data_of(tables, replace(options, id=None))
            rest = FileRows.of(draw, data.preprocessing, workers=cluster is not None)
        data = replace(data, preprocessing=replace(data.preprocessing, id=options.id))
        within = Watch(watch.between(0.15, 0.7))
        called = names_of(source), Path(target).name
        result = adapt_rows(data, called, AUTO, judged=False, watch=within, rest=rest)
        counts = None
        if outputs.model is not None:  # it gets its name when the predictions are there too
            save(result.model, stack.enter_context(replacing(outputs.model)))
        if outputs.out is not None:
            watch(0.7, "predicting")
            counts = predict_rows(
                result.model,
                data.preprocessing,
                target,
                outputs.out,
                format=options.format,
                id=options.id,
                progress=watch.between(0.7, 1.0),
            )
    watch(1.0, "done")
    total = draw.counts[-1]
    return replace(
        result,
        n_source=int(draw.counts[:-1].sum()),
        n_target=int(total.sum()),
        n_labelled_target=int(total[:-1].sum()),
        seconds=watch.seconds,
        notes=(
            *notes,
            *ignored,
            *result.notes,
            *sample_notes(result.model, n_rows),
            *_notes(outputs),
        ),
        files=outputs.files,
        times=tuple(watch.times),
        predicted=counts,
    )


def adapt_rows(
    data: Data,
    names: tuple[str, str],
    method: str | None = None,
    *,
    judged: bool = True,
    watch: Watch | None = None,
    rest: RestOfRows | None = None,
    device: str | None = None,
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
    rest : RestOfRows, default=None
        With "auto": the labelled source rows that `data` is a sample of.
    device : str, default=None
        Where models are fitted, by torch's name of it; None: by numpy.
    **parameters
        Of `MDAClassifier`; those that are None have their defaults.
    """
    watch = watch or Watch(silent)
    chosen = _with_means(data.preprocessing, data.Xt)
    reported: dict[str, Any] = {}
    with input_errors() as notes, listening(watch.progress) as work:
        X, y, domain, mark = data.packed()
        fitted = make_classifier(method, mark, **parameters)
        name = method_of(fitted)
        costs = Weights.of(data, name)
        later = costs.draw + costs.choose + costs.write if judged else 0.0
        folds = _n_folds(data) if judged else 0
        work.done = costs.read
        work.left = costs.fit
        work.after = costs.predict + costs.check + folds * (costs.fit + costs.fixed) + later
        watch(work.share, "adapting")
        began = work.done
        warnings.filterwarnings("ignore", SILENT)  # told below, with the columns of the files
        with nullcontext() if name == AUTO else step(costs.fit, 0.0, "adapting"):
            if rest is None:
                fitted = fit_on_device(fitted, X, y, domain, device)
            else:
                fitted.fit_sample(X, y, sample_domain=domain, rest=rest)
        work.left, fit_weight = 0.0, work.done - began
        if columns := getattr(fitted, "silent_columns_", []):
            named = [str(data.preprocessing.features[j]) for j in columns]
            notes.append(silent_columns_note(named))
        if getattr(fitted, "shift_", None) is not None:
            fitted.shift_ = fitted.shift_.with_names(data.preprocessing.features)
        watch(work.before(costs.predict), "predicting")
        codes, P = classes_and_probabilities(fitted, data.Xt)
        predictions = fitted.classes_[codes]
        work.pass_by(costs.predict)
        watch(work.before(costs.check), "checking")
        facts: dict[str, Any] = {
            "names": data.preprocessing.features,
            "labels": data.ys,
            "predicted": predictions,
            "source_domain": data.source_domain,
        }
        notes.extend(data.copy_notes)
        known = int(data.known.sum())
        diagnosis = diagnose(data.Xs, data.Xt, fitted, n_labelled=known, **facts)
        work.pass_by(costs.check)
        if judged:
            work.after = folds * (fit_weight + costs.fixed) + later
            watch(work.share, "judging")
            fit = partial(fit_on_device, device=device)
            reported["judgement"] = _judge(data, fitted, fit, work, fit_weight + costs.fixed, later)
            work.left, work.after = 0.0, later
            watch(work.before(costs.draw), "drawing")
            reported["evidence"] = gather(data.Xs, data.Xt, fitted, probabilities=P, **facts)
            work.pass_by(costs.draw)
            watch(work.before(costs.choose), "choosing rows to label")
            reported["label_first"] = _to_label(data, fitted, predictions, P)
            if is_exact(fitted) or chosen.n_features <= WIDE:
                parts = parts_of(chosen.parts, chosen.n_features)
                mean = np.array(chosen.means) if chosen.means else None
                reported["influence"] = tuple(overall_influence(fitted, data.Xt, parts, mean))
            work.pass_by(costs.choose)
            watch.done = work.before(costs.write)
    fitted.preprocessing_ = chosen.to_json()
    return Adapted(
        model=fitted,
        preprocessing=data.preprocessing,
        predictions=predictions,
        probabilities=P,
        diagnosis=diagnosis,
        n_source=len(data.ys),
        n_target=len(data.yt),
        n_labelled_target=known,
        seconds=watch.seconds,
        notes=(*data.notes, *notes, *sample_notes(fitted, len(y) if rest is None else 0)),
        files=(),
        inputs=names,
        times=tuple(watch.times),
        **reported,
    )


def _n_folds(data: Data) -> int:
    """How often labelled target rows have the model fitted again."""
    if int((data.known & ~data.copied).sum()) < FEW_LABELS:
        return 0
    n, d = len(data.ys) + len(data.yt), data.Xs.shape[1]
    return FOLDS if float(n) * d * min(n, d) < EXPENSIVE_FIT else 1


def _judge(
    data: Data,
    model: Any,
    fit: Callable[..., Any],
    work: Work,
    fit_weight: float,
    after: float,
) -> Judgement | None:
    """Cross-validate on the labelled target rows; None where they are too few.

    Where a fit is expensive, one fifth of the labels is held out and judges alone.

    Parameters
    ----------
    data : Data
        Rows and labels.
    model : classifier
        Whose parameters are judged; it is cloned and fitted once per fold.
    fit : callable
        Model, rows, labels and domains → the fitted model.
    work : Work
        Told of the folds, of `fit_weight` each; `after` is what comes then.
    """
    places = np.flatnonzero(data.known & ~data.copied)
    if len(places) < FEW_LABELS:
        return None
    places = places[row_order(data.Xt[places])]  # folds do not depend on how rows came
    X, y, domain, mark = data.packed()
    unlabelled = data.packed(target_labels=False)[1]
    plain = MDAClassifier("BL", unlabeled=mark)
    folds = KFold(FOLDS, shuffle=True, random_state=0).split(places)
    judges, guesses = [], []
    n_folds = _n_folds(data)
    began = work.done
    for k, (_, held) in enumerate(islice(folds, n_folds)):
        work.done, work.left = began + k * fit_weight, 0.0
        work.after = (n_folds - k) * fit_weight + after
        work.progress(work.before(fit_weight), f"judging, {k + 1} of {n_folds}")
        work.after -= fit_weight
        hidden = len(data.ys) + places[held]
        shown = y.copy()
        shown[hidden] = unlabelled[hidden]
        fitted = [fit(clone(m), X, shown, domain) for m in (model, plain)]
        guesses.append([m.predict(data.Xt[places[held]]) for m in fitted])
        judges.append(places[held])
    work.done = began + n_folds * fit_weight
    truth = data.yt[np.concatenate(judges)]
    adapted, unadapted = (np.concatenate(part) for part in zip(*guesses, strict=True))
    right = [np.asarray(guess == truth) for guess in (adapted, unadapted)]
    return Judgement(
        confusion_matrix(truth, adapted, labels=model.classes_),
        share_right(right[0]),
        share_right(right[1]),
        gain_right(*right),
        mcnemar(*right),
        bool(data.known.all()),
    )


def _with_means(chosen: Preprocessing, X: Any) -> Preprocessing:
    """With the mean row of the target, for explanations; sparse rows are told from nothing."""
    if sp.issparse(X):
        return chosen
    return replace(chosen, means=tuple(float(f"{mean:.6g}") for mean in X.mean(0)))


def _to_label(
    data: Data, model: Any, predicted: NDArray[Any], P: NDArray[np.float64]
) -> tuple[RowToLabel, ...]:
    """Among the rows without a label."""
    bare = np.flatnonzero(~data.known)
    if not len(bare):
        return ()
    chosen = choose_rows(model, data.Xt[bare], TO_LABEL)
    names = [f"row {k + 1}" for k in range(len(P))] if data.ids is None else data.ids
    return tuple(
        RowToLabel(str(names[k]), str(predicted[k]), float(P[k].max()), reason)
        for k, reason in zip(bare[chosen.rows].tolist(), chosen.reasons, strict=True)
    )


def _notes(outputs: Outputs) -> list[str]:
    nothing = "nothing was written: name files with --out, --model and --report."
    return [] if outputs.files else [nothing]
