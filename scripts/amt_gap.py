"""Which reading of the paper's protocol gives its AMT figures? Runs on record.

    MARDA_DATA=... python scripts/amt_gap.py [--out docs/amt-gap.csv] [--tasks 12] [--table]

Tables 2, 3 and 4 of the paper have five AMT figures without target labels (US) and seven with a few
of them, alone (SUP) or beside unlabelled rows (SS). The settings it states (noise 0.9, omega 0.01,
delta 1) leave open which target rows W sees and how the class predictor on denoised rows is meant.
Every reading below is scored on the same tasks:

- unlabelled: the target's train rows, its test rows (transductive), or both;
- marginalised: Z of the framework, with noise in its step;
- ridge: the same W, but Z is an ordinary ridge on denoised rows X W (no noise);
- ridge, L2 rows: the same on L2-normalised rows of X W;
- "; J: own": so for BL and the S models, while the J models keep the Z they learn with W;
- each for several delta, with plain or logarithmic term frequency, gamma 1 or 2 for the models
  with a domain predictor.

Rows are appended as they are finished; a second run skips what is there.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy.linalg import eigh
from sklearn.exceptions import ConvergenceWarning

from _stored import Stored
from marda import MDA, MDAClassifier, datasets, pack, paper_settings
from marda.benchmarks.published import paper_figure
from marda.estimators.classifier import fit_rows, training_rows
from marda.estimators.fitting import Shared

MODELS = {
    "US": ("BL", "S1", "S1D", "J12", "J12D"),
    "SUP": ("BL", "S1", "S1D", "S1C", "J12", "J12D", "J12C"),
    "SS": ("BL", "S1", "S1D", "S1C", "J12", "J12D", "J12C"),
}
DELTAS = (0.1, 1.0, 3.0, 10.0, 30.0, 100.0)
FIELDS = (
    *("task", "tf", "model", "reading", "delta", "accuracy"),
    *("setting", "unlabelled", "gamma", "draw"),
)


def paper_figures(setting: str) -> dict[str, float]:
    """The printed accuracies of a table."""
    figures = {m: paper_figure(setting.lower(), "amt", m, "ridge") for m in MODELS[setting]}
    return {model: figure for model, figure in figures.items() if figure is not None}


def ridge_readings(model: MDA | MDAClassifier, H: np.ndarray, y: np.ndarray) -> np.ndarray:
    """W Z for an ordinary ridge on denoised rows H, one column per delta, from one factorisation.

    The sign of a prediction does not depend on the length of the row it is made for, so test rows
    need not be denoised, nor normalised.
    """
    values, U = eigh(H @ H.T)
    signs = np.where(y == y.max(), 1.0, -1.0)
    alpha = U @ ((U.T @ signs)[:, None] / (values[:, None] + np.asarray(DELTAS)))
    return model.W_map_.matmul(H.T @ alpha)


def unit(H: np.ndarray) -> np.ndarray:
    """L2-normalised rows."""
    return H / np.maximum(np.linalg.norm(H, axis=1, keepdims=True), 1e-12)


def score_task(
    task: datasets.Task, models: Sequence[str], own_deltas: Sequence[float], gamma: float
) -> Iterator[tuple[str, str, float, float]]:
    """Model, reading, delta, accuracy; a model with a Z of its own is fitted for each own delta.

    Without own deltas the models that learn W alone are scored, which is much faster.
    """
    X, y, domain = pack(task.X_source, task.y_source, task.X_target, task.y_visible)
    known = np.flatnonzero(y != -1)  # classes are 0 and 1
    positive = task.y_test == 1
    shared = Shared()
    for name in models:
        settings = {**paper_settings("text"), "domain_loss_weight": gamma}
        fitted: list[tuple[float, MDA | MDAClassifier]] = []
        for delta in own_deltas:
            model = MDAClassifier(name, **{**settings, "ridge_class": delta})
            fit_rows(model, training_rows(model, X, y, sample_domain=domain), shared)
            yield name, "marginalised", delta, 100 * model.score(task.X_test, task.y_test)
            fitted.append((delta, model))
        if not fitted and name.startswith("J"):
            continue
        # W of the joint models depends on delta: theirs is the stated one, or the first.
        W = dict(fitted).get(1.0) or (fitted[0][1] if fitted else None)
        if W is None:
            W = MDA(name, **settings).fit(X, y, sample_domain=domain)
        H = np.asarray(W.transform(X[known]))
        for reading, A in (("ridge", H), ("ridge, L2 rows", unit(H))):
            scores = task.X_test @ ridge_readings(W, A, y[known])
            for d, score in zip(DELTAS, scores.T, strict=True):
                yield name, reading, d, 100 * float(np.mean((score > 0) == positive))


Reading = tuple[str, str, str, str, float]
Cells = dict[str, dict[tuple[str, str], float]]


def by_reading(stored: Stored, gamma: float, setting: str) -> dict[Reading, Cells]:
    """Accuracies by reading (unlabelled, tf, predictor, delta), model, task and draw."""
    found: dict[Reading, Cells] = {}
    for row in stored.rows:
        # Models without a domain predictor are the same for every gamma.
        wanted = gamma if row["model"].endswith("D") else 1.0
        if row["setting"] != setting or float(row["gamma"]) != wanted:
            continue
        key = (row["unlabelled"], row["tf"], row["reading"], float(row["delta"]))
        place = row["task"], str(row["draw"])
        found.setdefault(key, {}).setdefault(row["model"], {})[place] = float(row["accuracy"])
    # A joint model has a Z of its own; what is open is how the others get theirs.
    for seen, tf, reading, delta in list(found):
        own = found.get((seen, tf, "marginalised", delta))
        if own and reading != "marginalised":
            joint = {model: cells for model, cells in own.items() if model.startswith("J")}
            mixed = {**found[seen, tf, reading, delta], **joint}
            found[seen, tf, f"{reading}; J: own", delta] = mixed
    return found


def table(
    stored: Stored, setting: str = "US", gamma: float = 1.0, only: list[str] | None = None
) -> str:
    """Means over tasks, nearest reading first: mean distance to the paper's figures.

    A reading needs BL, S1 and S1D; what else lacks rows is a dash and does not count.
    """
    printed = paper_figures(setting)
    ranked = []
    for (seen, tf, reading, delta), cells in by_reading(stored, gamma, setting).items():
        if not {"BL", "S1", "S1D"} <= set(cells):
            continue
        places = set.intersection(*(set(cells[model]) for model in ("BL", "S1", "S1D")))
        if only is not None:
            places = {place for place in places if place[0] in only}
        there = [m for m in printed if places and places <= set(cells.get(m, ()))]
        if not there:
            continue
        means = {m: float(np.mean([cells[m][p] for p in places])) for m in there}
        gaps = np.abs([means[m] - printed[m] for m in there])
        shown = [seen, tf, reading, f"{delta:g}"]
        shown += [f"{means[m]:.1f}" if m in means else "–" for m in printed]
        shown += [f"{gaps.mean():.2f}", f"{gaps.max():.1f}", str(len(places))]
        ranked.append((gaps.mean(), f"| {' | '.join(shown)} |"))
    heads = ("W sees", "tf", "Z on X W", "δ", *printed, "mean distance", "largest", "tasks")
    return "\n".join(
        [
            f"| {' | '.join(heads)} |",
            "| --- " * len(heads) + "|",
            f"| paper | | | | {' | '.join(f'{v:.1f}' for v in printed.values())} | | | 12 |",
            *(line for _, line in sorted(ranked)),
        ]
    )


def main() -> None:
    """Run, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--out", type=Path, default=Path("docs/amt-gap.csv"))
    add("--tasks", type=int, default=12)
    add("--shard", default="0/1", help="k/n: every n-th task from the k-th")
    add("--tf", nargs="+", default=["plain", "log"])
    add("--setting", default="US", choices=tuple(MODELS))
    add("--unlabelled", nargs="+", default=["train", "test"], metavar="ROWS")
    add("--models", nargs="+", metavar="M")
    add("--gamma", type=float, default=1.0)
    add("--draw", type=int, default=0)
    add("--own-deltas", nargs="*", type=float, default=[], metavar="D")
    add("--only", nargs="+", metavar="S-T", help="tasks the table is made of")
    add("--table", action="store_true", help="only print the table of stored runs")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    stored = Stored(options.out, FIELDS)
    if not options.table:
        data = datasets.load("amt", os.environ.get("MARDA_DATA") or None)
        keys = ("task", "tf", "setting", "unlabelled", "draw", "gamma", "model")
        # A model with a Z of its own has more rows than one without.
        done = {tuple(row[k] for k in (*keys, "reading")) for row in stored.rows}
        reading = "marginalised" if options.own_deltas else "ridge"
        first, step = map(int, options.shard.split("/"))
        runs = [
            (seen, tf, source, target)
            for seen in options.unlabelled
            for tf in options.tf
            for source, target in list(data.pairs())[first : options.tasks : step]
        ]
        for seen, tf, source, target in runs:
            name = f"{source}-{target}"
            where = options.setting, seen, str(options.gamma), str(options.draw)
            place = name, tf, where[0], seen, where[3], where[2]
            models = [
                model
                for model in options.models or MODELS[options.setting]
                if options.own_deltas or not model.startswith("J")
                if options.gamma == 1.0 or model.endswith("D")  # the same model otherwise
                if (*place, model, reading) not in done
            ]
            if not models:
                continue
            task = datasets.make_task(
                *(data, source, target, options.setting),
                seed=options.draw,
                log_tf=tf == "log",
                unlabelled=seen,
            )
            scored = score_task(task, models, options.own_deltas, options.gamma)
            rows = [dict(zip(FIELDS, (name, tf, *row, *where), strict=True)) for row in scored]
            stored.add(*rows)
            print(name, tf, *where, "done", flush=True)
    print(table(stored, options.setting, options.gamma, options.only))


if __name__ == "__main__":
    main()
