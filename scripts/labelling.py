"""Do labels of the rows that `choose_rows` names bring more than labels of random rows?

    MARDA_DATA=... python scripts/labelling.py [oc10 amt oc10-surf mushrooms] [--half report]
        [--rows 300] [--draws 5] [--stand-in] [--out docs/labelling.csv] [--table]

Of every task, the model is fitted without target labels, then with the labels of 20 target rows:
drawn at random (five times), or named by `choose_rows` (once: it draws nothing). The gain is the
accuracy of the second minus that of the first, both on the target rows without a label;
"with_known" is the same on all target rows, labelled ones counting as right. With
--rows, a drawn part of every domain, since the default is fitted seven times per task; --stand-in
fits one of its adapted members alone, which is faster still. Tasks are stored as they are finished;
a second run goes on.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from _stored import Row, Stored
from marda import MDAClassifier, MDAClassifierCV, pack
from marda.benchmarks.execute import load_task
from marda.benchmarks.plan import BENCHMARKS, TaskSpec
from marda.selection.adapted_ensemble import member_parameters, noise_rule
from marda.selection.labelling import choose_rows

DATA = ("oc10", "amt", "oc10-surf", "mushrooms")
BUDGET = 20
FIELDS = ("data", "task", "half", "model", "rows", "without", "way", "draw", "gain", "with_known")


def tasks_of(data: str) -> list[TaskSpec]:
    """All tasks of a data set, without target labels; of mushrooms, both directions."""
    if data == "mushrooms":
        names = [name for name in BENCHMARKS["skada-bench"].tasks if name.startswith(data)]
        return [TaskSpec("skada-bench", name, "", "US") for name in names]
    found = BENCHMARKS[data]
    how = "log-tf" if data == "amt" else "paper"
    pairs = [(s, t) for s in found.domains for t in found.domains if s != t]
    return [TaskSpec(data, s, t, "US", preprocessing=how) for s, t in pairs]


def drawn(X: Any, y: Any, n: int | None, rng: np.random.Generator) -> tuple[Any, Any]:
    """At most n rows and their classes, in the order given."""
    some = np.sort(rng.permutation(len(y))[:n])
    return sp.csr_array(X)[some] if sp.issparse(X) else X[some], np.asarray(y)[some]


def rows_of(spec: TaskSpec, n: int | None) -> tuple[Any, Any, Any, Any]:
    """Rows and classes of source and target; at most n of each, drawn."""
    task = load_task(spec, Path(os.environ["MARDA_DATA"]))
    rng = np.random.default_rng(0)
    source = drawn(task.X_source, task.y_source, n, rng)
    return *source, *drawn(task.X_target, task.y_target, n, rng)


def gains(spec: TaskSpec, n: int | None, stand_in: bool, draws: int) -> Iterator[Row]:
    """What 20 labels bring, per way and draw."""
    Xs, ys, Xt, yt = rows_of(spec, n)
    if stand_in:
        Xs, Xt = normalize(Xs), normalize(Xt)

    def fitted(known: Any) -> Any:
        seen = np.full(len(yt), -1)
        seen[known] = yt[known]
        X, y, domain = pack(Xs, ys, Xt, seen)
        if not stand_in:
            return MDAClassifierCV(random_state=0).fit(X, y, sample_domain=domain)
        parameters = member_parameters(noise_rule(X))
        model = MDAClassifier(**parameters, class_weight="balanced", random_state=0)
        return model.fit(X, y, sample_domain=domain)

    plain = fitted([])
    right = plain.predict(Xt) == yt
    ways = [("chosen", 0, choose_rows(plain, Xt, BUDGET).rows)]
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        ways.append(("random", draw, rng.choice(len(yt), min(BUDGET, len(yt)), replace=False)))
    for way, draw, labelled in ways:
        rest = np.setdiff1d(np.arange(len(yt)), labelled)
        found = fitted(labelled).predict(Xt[rest]) == yt[rest]
        known = (found.sum() + len(labelled)) / len(yt)
        yield {
            "without": f"{100 * right.mean():.2f}",
            "way": way,
            "draw": draw,
            "gain": f"{100 * (found.mean() - right[rest].mean()):.2f}",
            "with_known": f"{100 * (known - right.mean()):.2f}",
        }


def table(stored: Stored) -> str:
    """Mean gains per data set and half, their ratio, and its 95 % bootstrap interval over tasks."""
    groups: dict[tuple[str, ...], dict[str, dict[str, list[float]]]] = {}
    for row in stored.rows:
        for half in (row["half"], "both"):
            for data in (row["data"], "all data"):
                key = (row["model"], row["rows"] or "all", half, data)
                ways = groups.setdefault(key, {}).setdefault(row["task"] + row["data"], {})
                ways.setdefault(row["way"], []).append(float(row["gain"]))
    lines = [
        "| model | rows | half | data | tasks | 20 random rows | 20 chosen rows | ratio | 95 % |",
        "| --- " * 9 + "|",
    ]
    for key, tasks in sorted(groups.items()):
        full = [ways for ways in tasks.values() if len(ways) == 2]
        if full:
            gains = np.array([[np.mean(w[way]) for way in ("random", "chosen")] for w in full])
            figures = [str(len(full)), *(f"{mean:+.2f}" for mean in gains.mean(0))]
            lines.append(f"| {' | '.join((*key, *figures, *ratio(gains)))} |")
    return "\n".join(lines)


def ratio(gains: Any, n: int = 10_000) -> tuple[str, str]:
    """Mean gain of chosen rows over that of random ones, and its interval; "–" where none gains."""
    rng = np.random.default_rng(0)
    drawn = gains[rng.integers(0, len(gains), (n, len(gains)))].mean(1)
    random, chosen = gains.mean(0)
    if random <= 0:
        return "–", "–"
    with np.errstate(divide="ignore", invalid="ignore"):
        # Where random rows bring nothing, chosen ones that gain bring any multiple of it.
        ratios = np.where(drawn[:, 0] > 0, drawn[:, 1] / drawn[:, 0], np.inf)
    low, high = np.quantile(ratios, (0.025, 0.975), method="inverted_cdf")
    interval = f"{low:.2f} to {high:.2f}" if np.isfinite(high) else f"over {low:.2f}"
    return f"{chosen / random:.2f}", interval


def main() -> None:
    """Measure, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", default=list(DATA), metavar="DATA")
    parser.add_argument("--half", choices=("development", "report"))
    parser.add_argument("--rows", type=int, metavar="N", help="rows per domain")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--tasks", type=int, help="the first so many of every data set")
    parser.add_argument("--stand-in", action="store_true", help="one adapted member alone")
    parser.add_argument("--out", type=Path, default=Path("docs/labelling.csv"))
    parser.add_argument("--table", action="store_true", help="print what is stored")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    stored = Stored(options.out, FIELDS)
    model = "stand-in" if options.stand_in else "default"
    for data in () if options.table else options.data:
        done = stored.values("data", "task", "model", "rows")
        specs = [spec for spec in tasks_of(data) if options.half in (None, spec.half)]
        for spec in specs[: options.tasks]:
            key = (data, spec.pair, model, str(options.rows or ""))
            if key in done:
                continue
            known = dict(zip(("data", "task", "model", "rows"), key, strict=True))
            found = gains(spec, options.rows, options.stand_in, options.draws)
            stored.add(*({**known, "half": spec.half, **row} for row in found))
            print(spec.pair, "done", flush=True)
    print(table(stored))


if __name__ == "__main__":
    main()
