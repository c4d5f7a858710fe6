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
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.linalg import eigh
from sklearn.exceptions import ConvergenceWarning

from _stored import Stored
from marda import MDAClassifier, datasets, pack, paper_settings
from marda.benchmarks.paper import paper_figure
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


def ridge_readings(model: MDAClassifier, H: np.ndarray, y: np.ndarray) -> np.ndarray:
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
    task: datasets.Task, models: tuple[str, ...], own_deltas: list[float], gammas: list[float]
) -> Iterator[tuple[str, str, float, float, float]]:
    """Model, reading, delta, accuracy, gamma; every model is fitted anew for each own delta."""
    X, y, domain = pack(task.X_source, task.y_source, task.X_target, task.y_visible)
    known = np.flatnonzero(y != -1)  # classes are 0 and 1
    positive = task.y_test == 1
    shared = Shared()
    for gamma in gammas:
        for delta in own_deltas:
            for name in models:
                if gamma != 1.0 and not name.endswith("D"):
                    continue  # the same model
                settings = {"ridge_class": delta, "domain_loss_weight": gamma}
                model = MDAClassifier(name, **{**paper_settings("text"), **settings})
                fit_rows(model, training_rows(model, X, y, sample_domain=domain), shared)
                accuracy = 100 * model.score(task.X_test, task.y_test)
                yield name, "marginalised", delta, accuracy, gamma
                if delta != own_deltas[0]:
                    continue
                H = model.transform(X[known])
                for reading, A in (("ridge", H), ("ridge, L2 rows", unit(H))):
                    scores = task.X_test @ ridge_readings(model, A, y[known])
                    for d, score in zip(DELTAS, scores.T, strict=True):
                        yield name, reading, d, 100 * float(np.mean((score > 0) == positive)), gamma


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
    """Means over tasks, nearest reading first: mean distance to the paper's figures."""
    printed = paper_figures(setting)
    ranked = []
    for (seen, tf, reading, delta), cells in by_reading(stored, gamma, setting).items():
        if not set(printed) <= set(cells):
            continue
        places = set.intersection(*(set(cells[model]) for model in printed))
        if only is not None:
            places = {place for place in places if place[0] in only}
        if not places:
            continue
        means = [float(np.mean([cells[m][p] for p in places])) for m in printed]
        gaps = np.abs(np.subtract(means, list(printed.values())))
        shown = [seen, tf, reading, f"{delta:g}", *(f"{mean:.1f}" for mean in means)]
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
    add("--gammas", nargs="+", type=float, default=[1.0, 2.0], metavar="G")
    add("--draw", type=int, default=0)
    add("--own-deltas", nargs="+", type=float, default=[1.0, 3.0, 10.0], metavar="D")
    add("--only", nargs="+", metavar="S-T", help="tasks the table is made of")
    add("--table", action="store_true", help="only print the tables of stored runs")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    stored = Stored(options.out, FIELDS)
    if not options.table:
        data = datasets.load("amt", os.environ.get("MARDA_DATA") or None)
        done = stored.values("task", "tf", "setting", "unlabelled", "draw")
        first, step = map(int, options.shard.split("/"))
        runs = [
            (seen, tf, source, target)
            for seen in options.unlabelled
            for tf in options.tf
            for source, target in list(data.pairs())[first : options.tasks : step]
        ]
        for seen, tf, source, target in runs:
            name, draw = f"{source}-{target}", options.draw
            if (name, tf, options.setting, seen, str(draw)) in done:
                continue
            task = datasets.make_task(
                *(data, source, target, options.setting),
                seed=draw,
                log_tf=tf == "log",
                unlabelled=seen,
            )
            models = MODELS[options.setting]
            scored = score_task(task, models, options.own_deltas, options.gammas)
            where = options.setting, seen
            stored.add(
                *(
                    dict(zip(FIELDS, (name, tf, *row[:4], *where, row[4], draw), strict=True))
                    for row in scored
                )
            )
            print(name, tf, *where, "done", flush=True)
    for gamma in options.gammas:
        print(f"\ngamma = {gamma:g}\n\n{table(stored, options.setting, gamma, options.only)}")


if __name__ == "__main__":
    main()
