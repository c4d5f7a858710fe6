"""How far off is the accuracy that is expected without a target label?

    MARDA_DATA=... python scripts/expectations.py collect generated skada-bench tables digits
    MARDA_DATA=... python scripts/expectations.py collect oc10 oc10-surf off31 amt
    MARDA_DATA=... python scripts/expectations.py collect sentiment-snippets
    python scripts/expectations.py show [--out docs/expectations.csv]

`collect` fits a plain stand-in for the default to every task: the source-only model that left-out
source rows choose (linear, kernel or forest), its rows and class shares changed as the account of
the shift has it; the ensemble where features differ, or where nothing explains and rows are wide.
What an expectation can be made of, and the true accuracy, become one file per task under
build/expectations; a second run goes on. `show` judges them by `marda.selection.expectation`, next
to average confidence, ATC, DoC and agreement-on-the-line, and writes one line per task and draw.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marda import MDAClassifierCV, pack
from marda.benchmarks.execute import load_task
from marda.benchmarks.plan import BENCHMARKS, TaskSpec
from marda.datasets import Task
from marda.estimators.accuracy_estimation import (
    accuracy_above_threshold,
    accuracy_by_agreement,
    accuracy_by_difference,
)
from marda.selection.expectation import expect, outside_support
from marda.shift import ClassPrior, Explanation, Shift, adjust_probabilities, explain_shift
from marda.shift.class_prior import Calibration, calibrate

FOLDER = Path("build/expectations")
OUT = Path("docs/expectations.csv")
DRAWS = {"skada-bench": 2, "generated": 4}
MAX_ROWS, WIDE_ROWS, ENSEMBLE_ROWS, TEST_ROWS = 1000, 600, 400, 2000
WIDE = 400  # columns
WAYS = ("ours", "confidence", "ATC", "DoC", "agreement")
FIELDS = ("data", "task", "draw", "half", "kind", "truth", *WAYS, "low", "high", "can_tell")
Row = dict[str, Any]


# Collect ------------------------------------------------------------------------------------------


@dataclass
class SourceModel:
    """A source-only model of all source rows, calibrated on left-out ones."""

    model: Any
    left_out: Any
    calibration: Calibration

    def __call__(self, X: Any) -> Any:
        """Calibrated probabilities under the source's class prior."""
        return self.calibration(self.model.predict_proba(X))


def models(X: Any) -> Iterator[Any]:
    """Candidates: linear; for few columns kernel and forest, too."""
    wide = X.shape[1] > WIDE
    for penalty in (10.0,) if wide else (0.03, 1.0):
        linear = LogisticRegression(C=penalty, max_iter=200, tol=1e-3)
        yield linear if wide else make_pipeline(StandardScaler(), linear)
    if not wide:
        kernel = Nystroem(
            gamma=0.5 / X.shape[1], n_components=min(150, X.shape[0] // 2), random_state=0
        )
        last = LogisticRegression(C=1.0, max_iter=200, tol=1e-3)
        yield make_pipeline(StandardScaler(), kernel, last)
    if X.shape[1] <= 1000 and not sp.issparse(X):
        yield RandomForestClassifier(100, min_samples_leaf=3, random_state=0)


def source_models(X: Any, codes: Any) -> list[SourceModel]:
    """Candidates, that of the least log-loss on left-out source rows first."""
    folds = int(min(5, np.bincount(codes).min()))
    splits = list(StratifiedKFold(folds, shuffle=True, random_state=0).split(X, codes))
    found = []
    for model in models(X):
        left_out = np.empty((len(codes), codes.max() + 1))
        for seen, held in splits:
            left_out[held] = clone(model).fit(X[seen], codes[seen]).predict_proba(X[held])
        calibration = calibrate(left_out, codes)
        P = calibration(left_out)
        loss = -float(np.log(np.maximum(P[np.arange(len(codes)), codes], 1e-12)).mean())
        found.append((loss, SourceModel(model.fit(X, codes), P, calibration)))
    return [model for _, model in sorted(found, key=lambda pair: pair[0])]


def told(one: Explanation | None, shift: Shift, model: SourceModel, X: Any, own: Any) -> Any:
    """Probabilities of target rows, if an explanation is true; None: as if there were no shift."""
    if one is None:
        return model(X)
    P = model(one.undo(X))
    if one.shares is None:
        return P
    single = one.name == "class shares" and shift.prior is not None
    shares = shift.prior.target if single and shift.prior is not None else one.shares
    shares = np.where(own > 0, np.maximum(shares, 1e-4), 0)
    return adjust_probabilities(P, own, shares / shares.sum())


def evidence(task: Task) -> Row:
    """What an expectation can be made of, and the truth."""
    most = WIDE_ROWS if task.X_source.shape[1] > WIDE else MAX_ROWS
    Xs, ys = _some(most, 0, task.X_source, task.y_source)
    if task.X_test.shape == task.X_target.shape and abs(task.X_test - task.X_target).max() == 0:
        Xt, ye = _some(most, 1, task.X_target, task.y_test)
        Xe = Xt
    else:
        (Xt,) = _some(most, 1, task.X_target)
        Xe, ye = _some(TEST_ROWS, 2, task.X_test, task.y_test)
    often = np.array([c for c in np.unique(ys) if (ys == c).sum() > 1])
    Xs, ys = Xs[np.isin(ys, often)], ys[np.isin(ys, often)]
    classes, codes = np.unique(ys, return_inverse=True)
    own = np.bincount(codes) / len(codes)
    shift = explain_shift(Xs, ys, Xt, n_draws=99)
    found = source_models(Xs, codes)
    best = found[0]
    self_trained = False
    unexplained_and_wide = shift.kind == "unexplained" and Xs.shape[1] >= Xs.shape[0]
    if shift.kind == "features" or unexplained_and_wide:
        rows, labels = _some(ENSEMBLE_ROWS, 3, Xs, codes)
        X, y, domain = pack(rows, labels, *_some(ENSEMBLE_ROWS, 4, Xt))
        X = X.tocsr() if sp.issparse(X) else X
        model = MDAClassifierCV(random_state=0).fit(X, y, sample_domain=domain)
        final, tested = (_all_classes(model, Z, len(classes)) for Z in (Xt, Xe))
        self_trained = any(
            member.adapted is not None and member.inputs.kind != "leaves"
            for member in model.members_
        )
    else:
        explanations = [shift.explanation(name) for name in shift.fitting] or [None]
        weights = shift.weights if shift.fitting else [1.0]
        final, tested = (
            sum(
                w * told(t, shift, best, Z, own) for t, w in zip(explanations, weights, strict=True)
            )
            for Z in (Xt, Xe)
        )
    prior = shift.prior
    return {
        "kind": shift.kind, "stories": np.array(shift.fitting, dtype=str),
        "tales": np.array([t.name for t in shift.explanations], dtype=str),
        "tested": np.array([
            (t.p_value, t.z, t.left, t.fits, np.nan if t.rival_p is None else t.rival_p, t.weight)
            for t in shift.explanations
        ]).reshape(-1, 6),
        "told": np.array([told(t, shift, best, Xt, own) for t in shift.explanations]),
        "prior": np.zeros(0) if prior is None else prior.target,
        "prior_error": np.zeros(0) if prior is None else prior.standard_error,
        "left": shift.left, "carried": shift.carried, "codes": codes,
        "left_out": np.array([v.left_out for v in found]),
        "voices": np.array([v(Xt) for v in found]), "final": final,
        "agreement": accuracy_by_agreement(
            lambda X, y: clone(best.model).fit(X, y).predict, Xs, (codes, best.left_out), Xt
        ),
        "outside": outside_support(Xs, Xt).mean(), "self_trained": self_trained,
        "truth": np.mean(classes[np.asarray(tested).argmax(1)] == ye),
    }  # fmt: skip


def _some(most: int, seed: int, *arrays: Any) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    kept = np.sort(rng.permutation(arrays[0].shape[0])[:most])
    return tuple((A if sp.issparse(A) else np.asarray(A))[kept] for A in arrays)


def _all_classes(model: Any, X: Any, n: int) -> Any:
    """Probabilities, of classes that a sample lacks as well."""
    P = np.zeros((X.shape[0], n))
    P[:, np.asarray(model.classes_).astype(int)] = model.predict_proba(X)
    return P


def tasks(names: Sequence[str], *, all_pairs: bool = False) -> Iterator[TaskSpec]:
    """Tasks of benchmarks: a few draws where there are many, a third of the pairs of domains."""
    for name in names:
        benchmark = BENCHMARKS[name]
        preprocessing = "log-tf" if benchmark.kind == "text" else "paper"
        pairs = benchmark.pairs()[:: 1 if all_pairs else len(benchmark.domains) or 1]
        for source, target in pairs:
            for draw in range(min(benchmark.draws, DRAWS.get(name, 1))):
                yield TaskSpec(
                    name, source, target, "US", preprocessing=preprocessing, draw=draw
                )  # fmt: skip


def collect(names: Sequence[str], folder: Path, *, all_pairs: bool = False) -> None:
    """Store the evidence of tasks that are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    given = os.environ.get("MARDA_DATA")
    for spec in tasks(names, all_pairs=all_pairs):
        path = folder / f"{spec.benchmark}~{spec.pair}~{spec.draw}~{spec.half}.npz"
        if path.exists():
            continue
        began = time.perf_counter()
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            row = evidence(load_task(spec, Path(given) if given else None))
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            np.savez_compressed(file, **row)
        part.replace(path)
        seconds = time.perf_counter() - began
        print(f"{spec.key} {row['kind']} {row['truth']:.3f} | {seconds:.1f} s", flush=True)


# Show ---------------------------------------------------------------------------------------------


def judge(path: Path) -> Row:
    """One task by every way to expect an accuracy."""
    data, task, draw, half = path.stem.split("~")
    with np.load(path) as file:
        stored = dict(file)
    kind = str(stored["kind"])
    left_out = (stored["codes"], stored["left_out"][0])
    found = expect(
        stored["final"],
        left_out,
        stored["voices"][0],
        shift=_shift(stored),
        explanations=dict(zip(map(str, stored["tales"]), stored["told"], strict=True)),
        other_models=list(stored["voices"][1:]),
        agreement=float(stored["agreement"]),
        outside=float(stored["outside"]),
        self_trained=bool(stored["self_trained"]),
    )
    values = {
        "truth": float(stored["truth"]),
        "ours": found.accuracy,
        "confidence": float(stored["final"].max(1).mean()),
        "ATC": accuracy_above_threshold(left_out, stored["final"]),
        "DoC": accuracy_by_difference(left_out, stored["final"]),
        "agreement": float(stored["agreement"]),
        "low": found.interval[0],
        "high": found.interval[1],
    }
    one = {"data": data, "task": task, "draw": draw, "half": half, "kind": kind}
    return {**one, **values, "can_tell": int(found.can_tell)}


def _shift(stored: Row) -> Shift:
    codes = stored["codes"]
    C = stored["final"].shape[1]
    prior = None
    if len(stored["prior"]):
        shares = stored["prior"]
        own = np.bincount(codes, minlength=C) / len(codes)
        prior = ClassPrior(own, shares, stored["prior_error"], shares, True)
    explanations = tuple(
        Explanation(str(name), p, z, left, bool(fits), None if np.isnan(rival) else rival, weight)
        for name, (p, z, left, fits, rival, weight) in zip(
            stored["tales"], stored["tested"], strict=True
        )
    )
    fitting = tuple(map(str, stored["stories"]))
    left, carried = float(stored["left"]), float(stored["carried"])
    kind = str(stored["kind"])
    return Shift(kind, fitting, explanations, np.arange(C), prior, (), left, carried, "", 0.05)


def show(rows: Sequence[Row]) -> str:
    """Tables in Markdown: ways to expect an accuracy, then ours by kind of task."""
    lines = [
        "| | half | mean error | more than 10 points too high | intervals hold | median width |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    halves = ("development", "report")
    sure = [row for row in rows if row["can_tell"]]
    named = [(way, way, rows) for way in WAYS] + [("ours, where it can tell", "ours", sure)]
    for name, way, mine in named:
        for half in (*halves, "both"):
            some = [row for row in mine if half in (row["half"], "both")]
            if some:
                lines.append(f"| {name} | {half} | {_figures(some, way)} |")
    lines += ["", "| | half | tasks | can tell | mean error | too high | intervals hold | width |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in dict.fromkeys(_group(row) for row in rows):
        for half in halves:
            some = [row for row in rows if _group(row) == name and row["half"] == half]
            if some:
                n = len({(row["data"], row["task"]) for row in some})
                tell = 100 * _mean([row["can_tell"] for row in some], some)
                figures = _figures(some, "ours")
                lines.append(f"| {name} | {half} | {n} | {tell:.0f} % | {figures} |")
    return "\n".join(lines)


def _group(row: Row) -> str:
    return str(row["task"]).split()[0] if row["data"] == "skada-bench" else str(row["data"])


def _mean(values: Sequence[float], rows: Sequence[Row]) -> float:
    """Mean over tasks of the mean over draws."""
    by_task: dict[tuple[str, str], list[float]] = {}
    for value, row in zip(values, rows, strict=True):
        by_task.setdefault((row["data"], row["task"]), []).append(value)
    return float(np.mean([np.mean(some) for some in by_task.values()]))


def _figures(rows: Sequence[Row], way: str) -> str:
    off = [row[way] - row["truth"] for row in rows]
    text = f"{100 * _mean(np.abs(off).tolist(), rows):.1f}"
    text += f" | {100 * _mean([value > 0.1 for value in off], rows):.0f} %"
    if way != "ours":
        return f"{text} | | "
    slack = 1e-9
    held = [row["low"] - slack <= row["truth"] <= row["high"] + slack for row in rows]
    width = 100 * float(np.median([row["high"] - row["low"] for row in rows]))
    return f"{text} | {100 * _mean(held, rows):.0f} % | {width:.0f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Collect what is missing, or show what is there."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("what", choices=("collect", "show"))
    parser.add_argument("data", nargs="*", help="benchmarks to collect")
    parser.add_argument("--all-pairs", action="store_true", help="of domains; without: a third")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="%(default)s")
    parser.add_argument("--out", type=Path, default=OUT, help="%(default)s")
    args = parser.parse_args(argv)
    if args.what == "collect":
        collect(args.data, args.folder, all_pairs=args.all_pairs)
        return 0
    rows = [judge(path) for path in sorted(args.folder.glob("*.npz"))]
    with args.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.4f}" if isinstance(v, float) else v for k, v in row.items()})
    print(show(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
