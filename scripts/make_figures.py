"""Draw docs/images/benchmarks.svg from the rows on record.

    python scripts/make_figures.py

Means are those of the table in docs/benchmarks.md, which a test holds to the rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from marda.benchmarks.leaderboard import Leaderboard
from marda.benchmarks.results import results_of
from paper_tables import every_row

DOCS = Path(__file__).parent.parent / "docs"
#: Data sets of the figure, by the names that the page has for them.
SHOWN = {
    "OC10, SqueezeNet": "oc10",
    "OFF31, SqueezeNet": "off31",
    "OC10, SURF": "oc10-surf",
    "AMT, test rows, ln(1 + tf)": "amt",
    "sentiment-snippets, balanced accuracy": "sentiment-snippets",
}
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7")
MARKERS = "osD^v"


def boards() -> dict[str, Leaderboard]:
    """Leaderboards of the rows on record, by their names on the page."""
    rows = [row for row in every_row() if row.spec.settings == "auto"]
    found = {
        board.benchmark: board
        for board in results_of(tuple(rows)).leaderboards
        if board.setting == "US"
    }
    return {name: found[benchmark] for name, benchmark in SHOWN.items()}


def figures(board: Leaderboard) -> Sequence[tuple[float, float]]:
    """Task by task: source-only ridge, MDAClassifierCV."""
    plain, ours = board.baseline, board.best("auto")
    assert plain is not None
    assert ours is not None
    return [
        (a, b)
        for a, b in zip(plain.values, ours.values, strict=True)
        if a is not None and b is not None
    ]


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
    mean = means(page)
    found = {name: figures(board) for name, board in boards().items()}
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    left.plot([30, 100], [30, 100], color="#888888", linewidth=1)
    for k, (name, tasks) in enumerate(found.items()):
        plain, ours = np.array(tasks).T
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
