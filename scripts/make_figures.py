"""Draw docs/images/benchmarks.svg from the figures of docs/benchmarks.md.

python scripts/make_figures.py
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

DOCS = Path(__file__).parent.parent / "docs"
TASK = re.compile(r"(\w+ → \w+) ([\d.]+) \(([\d.]+)\)")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7")
MARKERS = "osD^v"


def figures(page: str) -> dict[str, list[tuple[str, float, float]]]:
    """Task by task: (name, MDAClassifierCV, source-only ridge) of every data set of the page."""
    found = {}
    for line in page.splitlines():
        tasks = TASK.findall(line) if line.startswith("- ") else []
        if tasks:
            found[line[2:].partition(":")[0]] = [(n, float(a), float(b)) for n, a, b in tasks]
    return found


def means(page: str) -> dict[str, tuple[float, float]]:
    """Mean over tasks, as the table of the page has it: (source-only ridge, MDAClassifierCV)."""
    rows = re.findall(r"^\| ([^|]+) \| \d+ \| ([\d.]+) \| \*\*([\d.]+)\*\* \|", page, re.MULTILINE)
    return {name: (float(plain), float(ours)) for name, plain, ours in rows}


def main() -> None:
    """Read, draw, write."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "marda", "font.size": 10})
    import matplotlib.pyplot as plt

    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    found, mean = figures(page), means(page)
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    left.plot([30, 100], [30, 100], color="#888888", linewidth=1)
    for k, (name, tasks) in enumerate(found.items()):
        ours, plain = np.array([t[1:] for t in tasks]).T
        left.plot(plain, ours, MARKERS[k], color=COLOURS[k], alpha=0.8, label=name, markersize=5)
        for value, place, colour in zip(
            mean[name], (k, k + 0.38), ("#888888", COLOURS[k]), strict=True
        ):
            right.barh(place, value, 0.36, color=colour)
            right.annotate(f" {value:g}", (value, place), va="center", fontsize=9)
    left.set(xlabel="source-only ridge (%)", ylabel="MDAClassifierCV (%)", title="every task")
    left.legend(frameon=False, fontsize=9)
    right.set_yticks(np.arange(len(found)) + 0.19, [name.replace(", ", ",\n", 1) for name in found])
    right.invert_yaxis()
    right.set(xlabel="accuracy on the target (%)", title="mean over tasks (grey: source only)")
    right.set_xlim(0, 105)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(DOCS / "images" / "benchmarks.svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
