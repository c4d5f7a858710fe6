"""How often does a forest fall below itself with another seed? On the 72 tables.

    python scripts/seed_noise.py

What "falls by more than a point on n of 72 tables" is worth: two forests of 200 trees that differ
in their seed alone are equally good, and one is below the other by more than a point all the same.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import balanced_accuracy_score

from marda.benchmarks.plan import TaskSpec
from marda.datasets import named_task, public_tables

SEEDS = (0, 1, 2)


def main() -> None:
    """Print, by half, mean balanced accuracies and how often one seed falls below another."""
    found: dict[str, list[list[float]]] = {"development": [], "report": []}
    for name in public_tables.TASKS:
        task = named_task("tables", name)
        row = []
        for seed in SEEDS:
            forest = RandomForestClassifier(200, class_weight="balanced", random_state=seed)
            said = forest.fit(task.X_source, task.y_source).predict(task.X_test)
            row.append(100 * float(balanced_accuracy_score(task.y_test, said)))
        found[TaskSpec("tables", name, "", "US").half].append(row)
    for half, rows in [*found.items(), ("both", found["development"] + found["report"])]:
        scores = np.array(rows)
        falls = [int((scores[:, j] < scores[:, i] - 1).sum()) for i, j in permutations(SEEDS, 2)]
        means = ", ".join(f"{mean:.1f}" for mean in scores.mean(0))
        print(f"{half} ({len(rows)}): {means}; falls by more than a point {sorted(falls)}")


if __name__ == "__main__":
    main()
