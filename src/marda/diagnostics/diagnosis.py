"""One adaptation, before and after: distances, warnings, whether to trust it, what to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._machine import counted
from marda._order import row_order, sample_places, sample_rows, stack_rows
from marda.criteria import domain_hits
from marda.diagnostics.intervals import (
    Interval,
    bootstrap_mean,
    percentile_interval,
    row_counts,
    times_text,
)
from marda.diagnostics.verdict import (
    FEW_ROWS,
    Change,
    Facts,
    Outcome,
    diagnosis_text,
    next_step,
    outcome_of,
)
from marda.io.table import some_names
from marda.selection.source_only import SourceOnly
from marda.selection.stacking import LEARNED

ROWS = 1000  # per domain, for distances
DRAWS = 200


# Distances ----------------------------------------------------------------------------------------


def domain_accuracy(Xs: Any, Xt: Any, *, seed: int = 0) -> Interval:
    """Share of rows whose domain a cross-validated linear classifier names right (0.5: none).

    Both domains have the same number of rows here; the proxy A-distance is 4 · accuracy − 2.
    """
    return bootstrap_mean(domain_hits(Xs, Xt, seed=seed), seed=seed)


def a_distance(accuracy: Interval) -> Interval:
    """2(1 − 2ε), cut to [0, 2]."""
    values = accuracy.value, accuracy.low, accuracy.high
    return Interval(*(float(np.clip(4 * v - 2, 0, 2)) for v in values))


def mmd(Xs: Any, Xt: Any, *, seed: int = 0, max_rows: int = 500) -> Interval:
    """√ of the unbiased MMD² (0 where it is negative), with a bootstrap interval.

    The kernel is exp(−‖x − y‖² / width), width the median squared distance of all pairs of these
    rows, at most `max_rows` per domain: features before and after have a width each.
    """
    from sklearn.metrics.pairwise import euclidean_distances

    rng = np.random.default_rng(seed)
    Xs, Xt = sample_rows(Xs, max_rows, rng), sample_rows(Xt, max_rows, rng)
    n, m = Xs.shape[0], Xt.shape[0]
    squares = euclidean_distances(stack_rows(Xs, Xt), squared=True)
    width = float(np.median(squares[np.triu_indices(n + m, 1)])) or 1.0
    K = np.exp(-squares / width)
    np.fill_diagonal(K, 0.0)

    def estimate(ws: NDArray[Any], wt: NDArray[Any]) -> float:
        # A row drawn twice is not a pair with itself: the diagonal is out.
        # One row alone has no pair, and a kernel sum of zero: any count but zero will do.
        pairs = [max(1.0, w.sum() ** 2 - (w**2).sum()) for w in (ws, wt)]
        within = ws @ K[:n, :n] @ ws / pairs[0] + wt @ K[n:, n:] @ wt / pairs[1]
        return float(within - 2 * (ws @ K[:n, n:] @ wt) / (ws.sum() * wt.sum()))

    value = estimate(np.ones(n), np.ones(m))
    counts = [row_counts(k, DRAWS, rng).astype(float) for k in (n, m)]
    drawn = np.array([estimate(a, b) for a, b in zip(*counts, strict=True)])
    # Centred on the estimate: a bootstrap of a U-statistic is shifted upwards.
    drawn += value - drawn.mean()
    return percentile_interval(np.sqrt(max(0.0, value)), np.sqrt(np.maximum(0.0, drawn)))


# Warnings -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """Something that a user should know: a code for machines and a sentence."""

    code: str
    text: str


def data_findings(Xs: Any, Xt: Any, names: Sequence[str], *, scales: bool = True) -> list[Finding]:
    """What the rows alone tell: few rows, wild scales, features that give the domain away.

    Without `scales` these are not told: a model that has compared scales needs no advice.
    `checks_of` says which of these were looked for.
    """
    checked = checks_of(Xs, Xt, scales=scales)
    found = few_rows([("the source", Xs.shape[0]), ("the target", Xt.shape[0])])
    low, high, spread = zip(*(_ranges(X) for X in (Xs, Xt)), strict=True)
    if "scales" in checked:
        found += wild_scales(np.maximum(*spread), names)
    apart = (low[0] > high[1]) | (low[1] > high[0])
    if "leakage" in checked and apart.any():
        shown = some_names((names[k] for k in np.flatnonzero(apart).tolist()), 3)
        each, out = ("", "it out with --drop if it is")
        if apart.sum() > 1:
            each, out = ("each of ", "those out with --drop that are")
        found.append(
            Finding(
                "leakage",
                f"{each}{shown} alone tells source from target in every row, as an id or a "
                f"date does: leave {out} one.",
            )
        )
    return found


def few_rows(domains: Sequence[tuple[str, int]]) -> list[Finding]:
    """Domains, by what they are called and their rows, that show no more than chance."""
    return [
        Finding(
            "few-rows",
            f"{name} has {counted(n, 'row')}, fewer than {FEW_ROWS}: results are a matter of luck; "
            "add rows.",
        )
        for name, n in domains
        if n < FEW_ROWS
    ]


def wild_scales(spread: NDArray[np.float64], names: Sequence[str]) -> list[Finding]:
    """Whether features that vary at all vary by more than 1,000 times as much as others."""
    varies = np.flatnonzero(spread > 0)
    if not varies.size or spread.max() <= 1000 * spread[varies].min():
        return []
    large, small = names[int(spread.argmax())], names[int(varies[spread[varies].argmin()])]
    times = times_text(spread.max() / spread[varies].min())
    text = f"features have wildly different scales ({large!r} varies {times} as much as {small!r})"
    return [Finding("scales", f"{text}: use --scale standard.")]


def checks_of(Xs: Any, Xt: Any, *, scales: bool = True) -> tuple[str, ...]:
    """Codes of what `data_findings` and `prediction_findings` look for in these rows."""
    made = ["few-rows", "single-class", "proportions"]
    if scales and not sp.issparse(Xs):
        made.append("scales")
    if min(Xs.shape[0], Xt.shape[0]) >= FEW_ROWS:
        made.append("leakage")
    return tuple(made)


def _ranges(X: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Smallest, largest and standard deviation per feature."""
    if sp.issparse(X):
        low, high = X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
        return low, high, high - low
    return X.min(0), X.max(0), X.std(0)


def prediction_findings(
    classes: NDArray[Any], source: NDArray[Any], predicted: NDArray[Any], n_labelled: int = 0
) -> list[Finding]:
    """What the predictions tell: one class only, or proportions far from the source's.

    Advice depends on how many target rows have labels.
    """
    if len(predicted) < FEW_ROWS:  # a matter of luck
        return []
    shares = [np.array([(y == c).mean() for c in classes]) for y in (source, predicted)]
    rows = Facts(len(source), len(predicted), n_labelled)
    return share_findings(classes, shares[0], shares[1], next_step(rows))


def share_findings(
    classes: NDArray[Any],
    source: NDArray[np.float64],
    predicted: NDArray[np.float64],
    advice: str,
) -> list[Finding]:
    """The same from the share of every class."""
    shares = [source, predicted]
    top = int(shares[1].argmax())
    name = classes[top].item() if hasattr(classes[top], "item") else classes[top]
    if shares[1][top] >= 0.98 and shares[0][top] < 0.9:
        return [
            Finding(
                "single-class",
                f"{shares[1][top]:.0%} of the target is predicted as {name!r} "
                f"({shares[0][top]:.0%} of the source is): either the target has one class, or "
                f"adaptation failed; {advice}.",
            )
        ]
    if np.abs(shares[0] - shares[1]).sum() / 2 > 0.3:
        return [
            Finding(
                "proportions",
                f"class proportions are very different: {name!r} is {shares[0][top]:.0%} of the "
                f"source and {shares[1][top]:.0%} of the predictions; adaptation assumes that they "
                "are similar.",
            )
        ]
    return []


# The diagnosis ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Diagnosis:
    """Distances before and after, findings, and one sentence.

    Attributes
    ----------
    a_distance_before, a_distance_after : Interval or None
        Proxy A-distance 2(1 − 2ε), 0 (alike) to 2; ε is the cross-validated error of a domain
        classifier.
    mmd_before, mmd_after : Interval or None
        Maximum mean discrepancy with a Gaussian kernel as wide as the median distance (its square
        is the median squared distance of all pairs).
    findings : tuple of Finding
        Warnings.
    verdict : str
        Does adaptation help, on what evidence.
    outcome : str
        The verdict in a word: "closer", "mixed", "further", "unclear", "alike", "explained",
        "cannot-tell", "chance", "single-class" or "few-rows".
    facts : Facts
        What the verdict follows from.
    checks : tuple of str
        Codes of the findings that were looked for.
    """

    a_distance_before: Interval | None
    a_distance_after: Interval | None
    mmd_before: Interval | None
    mmd_after: Interval | None
    findings: tuple[Finding, ...]
    verdict: str
    outcome: Outcome
    facts: Facts
    checks: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        state = asdict(self)
        for name in ("facts", "checks"):
            del state[name]
        return state


def denoise(
    estimator: Any, Xs: Any, Xt: Any, *, source_domain: NDArray[np.int64] | None = None
) -> list[Any]:
    """Denoised rows of both domains; a model that centres must know which are which source's."""
    sources = [d for d in np.asarray(getattr(estimator, "domains_", ())).tolist() if d >= 0]
    if not sources or not getattr(estimator, "center", True):
        return [estimator.transform(X) for X in (Xs, Xt)]
    domain = np.full(Xs.shape[0], sources[0]) if source_domain is None else source_domain
    return [estimator.transform(Xs, sample_domain=domain), estimator.transform(Xt)]


def diagnose(
    Xs: Any,
    Xt: Any,
    estimator: Any,
    *,
    names: Sequence[str],
    labels: NDArray[Any],
    predicted: NDArray[Any],
    n_labelled: int = 0,
    source_domain: NDArray[np.int64] | None = None,
    seed: int = 0,
) -> Diagnosis:
    """Everything above for a fitted classifier.

    Parameters
    ----------
    Xs, Xt : arrays or CSR arrays
        Rows of source and target.
    estimator : MDAClassifier
        Fitted on them.
    names : sequence of str
        Features.
    labels, predicted : arrays
        Source labels, predicted target labels.
    n_labelled : int, default=0
        How many target rows have a label.
    source_domain : array of int, default=None
        Which source every source row is of, as in the fit; None: there is one.
    """
    compares_scales = getattr(estimator, "candidates", None) == "auto"
    findings = data_findings(Xs, Xt, names, scales=not compares_scales)
    findings += prediction_findings(estimator.classes_, labels, predicted, n_labelled)
    checks = checks_of(Xs, Xt, scales=not compares_scales)
    facts = facts_of(
        estimator,
        labels,
        names=names,
        n_target=Xt.shape[0],
        n_labelled=n_labelled,
        single_class=any(f.code == "single-class" for f in findings),
    )
    if facts.action and facts.shift:  # other class shares have been told and taken into account
        findings = [f for f in findings if f.code not in ("proportions", "alike")]
    if min(Xs.shape[0], Xt.shape[0]) < 5:
        nothing = (None, None, None, None)
        told = diagnosis_text(facts), outcome_of(facts)
        return Diagnosis(*nothing, tuple(findings), *told, facts, checks)
    rng = np.random.default_rng(seed)
    drawn = [sample_places(X, ROWS, rng) for X in (Xs, Xt)]
    sources, targets = Xs[drawn[0]], Xt[drawn[1]]
    of = None if source_domain is None else source_domain[drawn[0]]
    denoised = denoise(estimator, sources, targets, source_domain=of)
    before = domain_accuracy(sources, targets, seed=seed)
    after = domain_accuracy(*denoised, seed=seed)
    distances = mmd(sources, targets, seed=seed), mmd(*denoised, seed=seed)
    facts = replace(facts, mmd=Change(*distances), told_apart=Change(before, after))
    if not facts.few:
        checks = ("alike", *checks)
    if facts.alike and not facts.action:
        findings.append(
            Finding(
                "alike",
                f"the domains are already alike (a classifier names the domain of "
                f"{before.value:.0%} of rows, 50% is chance): adaptation has little to bring "
                "closer.",
            )
        )
    return Diagnosis(
        a_distance(before),
        a_distance(after),
        *distances,
        tuple(findings),
        diagnosis_text(facts),
        outcome_of(facts),
        facts,
        checks,
    )


def facts_of(
    estimator: Any,
    labels: NDArray[Any],
    *,
    names: Sequence[str],
    n_target: int,
    n_labelled: int = 0,
    single_class: bool = False,
) -> Facts:
    """What is known of a fitted classifier before any distance is measured."""
    calibration = getattr(estimator, "calibration_", {})
    counts = np.unique(labels, return_counts=True)[1]
    # It is an estimate for rows without a label: where every row has one, there are none.
    expected = calibration.get("expected_accuracy") if n_labelled < n_target else None
    return Facts(
        len(labels),
        n_target,
        n_labelled,
        len(estimator.classes_),
        float(counts.max() / counts.sum()),
        single_class=single_class,
        expected=expected,
        calibrated="sharpness" in calibration,
        **_explained(estimator, calibration, expected, names),
    )


def _explained(
    estimator: Any, calibration: dict[str, Any], expected: float | None, names: Sequence[str]
) -> dict[str, Any]:
    """What differs and what was done about it, of a classifier that asked."""
    shift = getattr(estimator, "shift_", None)
    if shift is None:
        plain = getattr(estimator, "method", "") == "BL"
        return (
            {"action": "BL learns from labelled rows as they are, and adapts nothing."}
            if plain
            else {}
        )
    other_shares = bool(shift.fitting) and "class shares" in shift.fitting[0]
    found = {
        "commonest_target": float(shift.shares.max()) if other_shares else 0.0,
        "shift": shift.sentence() + _not_used(estimator, names),
        "action": _action(estimator),
        "differs": shift.kind != "too few rows" and "none" not in shift.fitting,
    }
    if expected is None or "expected_interval" not in calibration:
        return found
    low, high = calibration["expected_interval"]
    known = {"can_tell": calibration["can_tell"], "reason": calibration["reason"]}
    return {**found, **known, "interval": (low, high)}


def _not_used(estimator: Any, names: Sequence[str]) -> str:
    """Columns that tell the domains apart and that no model sees."""
    columns = getattr(estimator, "silent_columns_", [])
    if not columns:
        return ""
    listed = some_names([names[j] for j in columns], 3, str)
    have = "it has" if len(columns) == 1 else "each has"
    return f" Not used, since {have} one value in the target: {listed}."


def _action(estimator: Any) -> str:
    """What was done in place of adapting features."""
    members = estimator.members_
    if any(not isinstance(member.model, SourceOnly) for member in members):
        return ""
    if any(member.name.startswith(LEARNED) for member in members):
        return "Models of the source and of labelled target rows are used, as far as labels agree."
    if len(members) > 1 and not {"class shares", "moved columns"} & {*estimator.shift_.fitting}:
        return (
            "Moved columns nearly explain it: the model of the source reads rows both as they are "
            "and moved back."
        )
    if len(members) > 1:
        return "A model for each is used, weighted by how far it is to be believed."
    done = []
    if members[0].inputs.kind == "aligned":
        done.append("rows moved back")
    if members[0].model.bias.any():
        done.append("the target's class shares")
    return f"The model of the source is used {f'with {done[0]}' if done else 'as it is'}."


# What a reader can look at: both domains in two dimensions, features, confidence, convergence -----

POINTS = 500  # per domain: more dots hide each other, and every dot is part of the page
GAPS = 15
CELLS = 20_000_000  # values of denoised rows held at once, for rows that are very long
BINS = 20
FILLED = 0.5  # rows with fewer entries that are not zero are words, or counts of one kind


@dataclass(frozen=True)
class Picture:
    """Rows of both domains on the two directions in which, joined, they vary most.

    Columns are first divided by their standard deviation; where most entries are zero, those that
    would outweigh all others together (a price beside words) are scaled down to these.

    Attributes
    ----------
    places : array of shape (n_rows, 2)
        Coordinates.
    share : tuple of two floats
        How much of all variation each direction holds.
    """

    places: NDArray[np.float64]
    share: tuple[float, float]


@dataclass(frozen=True)
class Gap:
    """Mean of a feature in the target minus that in the source, in its standard deviations."""

    feature: str
    before: float
    after: float


@dataclass(frozen=True)
class Evidence:
    """What is shown of one fitted classifier.

    Attributes
    ----------
    before, after : Picture
        The same rows as they came and denoised.
    target : array of bool of shape (n_rows,)
        Whether a row of the pictures is of the target.
    codes : array of int of shape (n_rows,)
        Places in `classes`: labels of source rows, predictions for target rows.
    classes : tuple of str
        Label values, as text.
    shares : array of shape (2, n_classes)
        Of the classes among source labels and among predictions for the target.
    gaps : tuple of Gap
        Features whose gap changed most, or is largest where none changed; empty where denoised
        columns are no longer the features.
    confidence : array of int of shape (n_classes, n_bins)
        Target rows by predicted class and by the probability of that class.
    edges : array of shape (n_bins + 1,)
        Of the bins.
    losses : tuple of float
        The loss after every step of a joint model; empty for the others.
    """

    before: Picture
    after: Picture
    target: NDArray[np.bool_]
    codes: NDArray[np.int64]
    classes: tuple[str, ...]
    shares: NDArray[np.float64]
    gaps: tuple[Gap, ...]
    confidence: NDArray[np.int64]
    edges: NDArray[np.float64]
    losses: tuple[float, ...]

    @property
    def moved(self) -> bool:
        """Whether the classifier sees other features than those that came."""
        return not np.array_equal(self.before.places, self.after.places)


def gather(
    Xs: Any,
    Xt: Any,
    estimator: Any,
    *,
    names: Sequence[str],
    labels: NDArray[Any],
    predicted: NDArray[Any],
    probabilities: NDArray[np.float64],
    source_domain: NDArray[np.int64] | None = None,
    seed: int = 0,
) -> Evidence:
    """Look at a fitted classifier; memory and time do not grow with the number of rows.

    Parameters
    ----------
    Xs, Xt, estimator, names, labels, predicted, source_domain
        As for `diagnose`.
    probabilities : array of shape (n_target, n_classes)
        Of the target rows.
    """
    rng = np.random.default_rng(seed)
    most = min(POINTS, max(50, CELLS // (2 * max(1, Xs.shape[1]))))
    places = [np.sort(row_order(X)[rng.permutation(X.shape[0])[:most]]) for X in (Xs, Xt)]
    rows = [X[at] for X, at in zip((Xs, Xt), places, strict=True)]
    of = None if source_domain is None else source_domain[places[0]]
    denoised = denoise(estimator, *rows, source_domain=of)
    classes = estimator.classes_
    picked = [y[at] for y, at in zip((labels, predicted), places, strict=True)]
    edges = np.linspace(0.0, 1.0, BINS + 1)
    codes = np.searchsorted(classes, predicted)
    best = probabilities[np.arange(len(codes)), codes]
    losses = getattr(estimator, "loss_curve_", ())
    return Evidence(
        before=_picture(rows, seed),
        after=_picture(denoised, seed),
        target=np.repeat([False, True], [len(at) for at in places]),
        codes=np.searchsorted(classes, np.concatenate(picked)).astype(np.int64),
        classes=tuple(str(c) for c in classes.tolist()),
        shares=np.array([[np.mean(y == c) for c in classes] for y in (labels, predicted)]),
        gaps=_gaps(rows, denoised, names, _outputs(estimator, names, denoised[0].shape[1])),
        confidence=np.array(
            [np.histogram(best[codes == k], edges)[0] for k in range(len(classes))], dtype=np.int64
        ),
        edges=edges,
        losses=tuple(float(v) for v in losses) if len(losses) > 1 else (),
    )


def _picture(rows: list[Any], seed: int) -> Picture:
    from sklearn.decomposition import PCA

    X = stack_rows(*rows)
    X = X.astype(np.float64, copy=False)
    variances, filled = _variances(X), np.asarray((X != 0).sum(0)).ravel() / max(1, X.shape[0])
    spread = np.sqrt(variances)
    words = np.sqrt(variances[filled <= FILLED].sum()) if filled.mean() <= FILLED else 0.0
    if words > 0:  # of one unit
        unit = np.where(spread > words, words / np.where(spread > 0, spread, 1), 1.0)
    else:  # columns of any unit count alike
        unit = np.where(spread > 1e-9 * abs(X).max(), 1 / np.where(spread > 0, spread, 1), 0.0)
    if (unit != 1).any():
        X = sp.csr_array(X @ sp.diags_array(unit)) if sp.issparse(X) else X * unit
    places = np.zeros((X.shape[0], 2))
    total = _variances(X).sum()
    if total == 0:  # one and the same row: nothing to rotate
        return Picture(places, (0.0, 0.0))
    k = min(2, X.shape[1])
    # Sparse rows are centred without being filled in; ARPACK needs more columns than directions.
    if sp.issparse(X) and min(X.shape) <= k:
        X = X.toarray()
    pca = PCA(k, svd_solver="arpack" if sp.issparse(X) else "auto", random_state=seed)
    places[:, :k] = pca.fit_transform(X)
    shares = pca.explained_variance_ * (X.shape[0] - 1) / X.shape[0] / total
    return Picture(places, (float(shares[0]), float(shares[1]) if k > 1 else 0.0))


def _outputs(estimator: Any, names: Sequence[str], width: int) -> NDArray[np.int64] | None:
    """Places of the features that denoised columns stand for; None where they stand for none."""
    if width == len(names):
        return np.arange(width)
    try:
        shown = estimator.get_feature_names_out(np.asarray(names, dtype=object)).tolist()
    except (AttributeError, ValueError):
        return None
    places = {name: k for k, name in enumerate(names)}
    found = [places.get(name) for name in shown]
    return None if len(found) != width or None in found else np.array(found, dtype=np.int64)


def _gaps(
    rows: list[Any], denoised: list[Any], names: Sequence[str], outputs: NDArray[np.int64] | None
) -> tuple[Gap, ...]:
    """The features whose gap changed most, or is largest where none changed."""
    if outputs is None:
        return ()
    before, after = _standardised(rows)[outputs], _standardised(denoised)
    changed = np.abs(np.abs(before) - np.abs(after))
    if not changed.any():
        changed = np.abs(before)
    most = np.argsort(-changed, kind="stable")[:GAPS]
    return tuple(Gap(names[outputs[j]], float(before[j]), float(after[j])) for j in most)


def _standardised(pair: list[Any]) -> NDArray[np.float64]:
    """Difference of means over the root of the mean variance within a domain."""
    means = [np.asarray(X.mean(axis=0), dtype=float).ravel() for X in pair]
    spread = np.sqrt(sum(_variances(X) for X in pair) / 2)
    # A feature that varies in neither domain tells nothing that a number of deviations could say.
    flat = spread <= 1e-9 * np.maximum(np.abs(means[0]), np.abs(means[1]))
    return np.where(flat, 0.0, (means[1] - means[0]) / np.where(flat, 1.0, spread))


def _variances(X: Any) -> NDArray[np.float64]:
    """Of every column, sparse or not."""
    if sp.issparse(X):
        from sklearn.utils.sparsefuncs import mean_variance_axis

        return np.asarray(mean_variance_axis(sp.csr_matrix(X), axis=0)[1], dtype=float)
    return np.asarray(np.var(X, axis=0), dtype=np.float64)
