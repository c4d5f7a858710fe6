"""Tables of the documentation from the rows on record.

    python scripts/paper_tables.py [--add results.sqlite ...] [--check] [--time] [--out FOLDER]

The rows lie in docs/rows.jsonl.xz, one JSON object per run with its commit, versions and machine.
Written from them: the claims in docs/findings.md, the paper's tables and the SURF experiment in
docs/tables, the ranking of all systems with its picture, and the leaderboard of the default next
to them. --add takes the rows of stores of `marda reproduce` in first; --check writes nothing and
fails where a page is not what the rows give; --time prints what `marda reproduce --all` costs by
the rows on record; --out writes every table in every format into a folder.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean

from marda.benchmarks.leaderboard import (
    RANKING_NOTES,
    Leaderboard,
    halves_grid,
    leaderboard_grid,
    rank_systems,
    ranking_grid,
    summary_grid,
)
from marda.benchmarks.plan import (
    BENCHMARKS,
    MODELS,
    UNLABELLED,
    TableName,
    belongs,
    everything,
)
from marda.benchmarks.published import paper_figure
from marda.benchmarks.render import align, findings_grid, markdown_lines, to_markdown
from marda.benchmarks.results import HALVES, Results, results_of, write_results
from marda.benchmarks.runner import RunReport
from marda.benchmarks.store import ResultRow, Store, read_rows, write_rows
from marda.benchmarks.tables import build_table
from marda.report import charts
from marda.report.benchmarked import benchmarked_page, ranks_drawing

DOCS = Path(__file__).parent.parent / "docs"
ROWS = DOCS / "rows.jsonl.xz"
BEGIN = "<!-- written by scripts/paper_tables.py -->"
TITLES: dict[TableName, str] = {
    "us": "Table 2 (US), ours next to the paper's",
    "off31": "Table 5: the six tasks of OFF31",
    "sup": "Table 3 (SUP), ours next to the paper's",
    "ss": "Table 4 (SS), ours next to the paper's",
    "surf": "OC10 with SURF features, semi-supervised, sampled",
}
READINGS = {
    ("paper", "paper"): "rows of unit length (as stated)",
    ("no-l2", "paper"): "rows of any length",
    ("no-l2", "paper+normalize=true"): "rows of X W of unit length instead",
}
RANKED = (
    "Systems that ran on the same tasks without a target label, `auto` (`MDAClassifierCV`) among "
    "them. Those of `marda.benchmarks.peers` are written from their papers, each with one setting "
    "for all data ([what they are](../benchmarks.md)). A data set on which few of them ran is "
    "shown and does not count for the rank. Why some have no rank: SKADA-Bench has a forest in "
    "place of a linear SVM; MEDA solves for matrices of rows × rows and was not run on the tasks "
    "of the snippets with 13,000; the paper's models at fixed settings (S1, S1M, S1D) are on its "
    "own data alone, and on SURF."
)
RANKS = "Mean rank of every system; where two intervals do not overlap, the systems differ (5 %)"
LEADERBOARD = (
    "Written by `scripts/paper_tables.py` from the rows on record (`docs/rows.jsonl.xz`): the "
    "default (`auto`) next to source-only models, skada's adapters and the systems of "
    "`marda.benchmarks.peers`. [What to make of it](../benchmarks.md); "
    "[all of them ranked](ranking.md). A row names its commit, versions and machine."
)

AMT_READINGS = (
    "# AMT, in every reading that was run",
    "",
    "Written by `scripts/paper_tables.py` from the rows on record (`docs/rows.jsonl.xz`): means "
    "over all 12 tasks (SS and SUP: the first draw of 3 labelled rows per class), nearest to the "
    "paper first. What differs:",
    "",
    "- *W sees* the target's train or test rows, without labels; in SUP there are none.",
    "- *tf*: plain term frequency, or ln(1 + tf).",
    "- *Z*: the class predictor of rows X W. *Marginalised* is the framework's, with noise; "
    "*ridge* an ordinary one, without. *J's own*: BL, S1, S1D and S1C have that ridge, J12, J12D "
    "and J12C the marginalised Z that they learn with W.",
    "- γ = 1; γ = 2 is below.",
    "",
    "The reading that is stated is W of train rows, plain tf and a marginalised Z with δ = 1. "
    "[What follows](../reproduction.md#the-amt-gap).",
    "",
)


def every_row(path: Path = ROWS) -> tuple[ResultRow, ...]:
    """Rows on record."""
    return tuple(read_rows(path))


def pages(results: Results) -> dict[Path, str]:
    """Files of docs that rows alone decide, and their text; of findings what follows BEGIN."""
    found = {}
    stored = [row.spec for row in results.rows if row.spec.settings != "auto"]
    for name, title in TITLES.items():
        readings = READINGS if name == "surf" else dict([next(iter(READINGS.items()))])
        parts = []
        for (prepared, variant), reading in readings.items():
            specs = [
                spec
                for spec in stored
                if belongs(spec, name) and spec.task.protocol in ("full", "sampled")
                if name == "surf" or BENCHMARKS[spec.task.benchmark].printed_as
                if (spec.task.preprocessing, spec.variant) == (prepared, variant)
            ]
            if specs:
                table = build_table(name, specs, results.rows)
                more = f": {reading}" if name == "surf" else ""
                parts.append(to_markdown(replace(table, title=table.title + more)))
        head = f"# {title}\n\nWritten by `scripts/paper_tables.py` from the rows "
        head += "on record (`docs/rows.jsonl.xz`).\n\n"
        if parts:
            found[DOCS / "tables" / f"{name}.md"] = head + "\n".join(parts)
    ranking = rank_systems(results.leaderboards)
    if ranking is not None:
        lines = [
            "# All systems, ranked",
            "",
            RANKED,
            "",
            f"![{RANKS}](../images/ranks.svg)",
            "",
            *markdown_lines(ranking_grid(ranking)),
            "",
        ]
        lines += [
            f"Tasks: {ranking.n_tasks}; critical difference of mean ranks {ranking.critical:.2f}.",
            "",
        ]
        lines += [f"- {note}" for note in RANKING_NOTES]
        drawn = charts.standalone(ranks_drawing(ranking), RANKS)
        found[DOCS / "images" / "ranks.svg"] = drawn
        found[DOCS / "tables" / "ranking.md"] = "\n".join(lines) + "\n"
    found[DOCS / "tables" / "leaderboard.md"] = "\n".join(leaderboard_page(results)) + "\n"
    found[DOCS / "tables" / "amt.md"] = "\n".join(amt_readings(results.rows))
    kept = (DOCS / "findings.md").read_text(encoding="utf-8").partition(BEGIN)[0]
    grid = markdown_lines(findings_grid(results.findings))
    every = [finding.told for finding in results.findings]
    average = [finding.average.told for finding in results.findings if finding.average]
    counts = f"In every cell {_counts(every)}; on average {_counts(average)}."
    found[DOCS / "findings.md"] = "\n".join([kept + BEGIN, "", counts, "", *grid, ""])
    return found


def leaderboard_page(results: Results) -> Iterator[str]:
    """Lines of the page of the default next to all systems, task by task."""
    yield from ("# The leaderboard, task by task", "", LEADERBOARD, "")
    yield from markdown_lines(summary_grid(results.leaderboards))
    yield from ("", f"## {HALVES}", "", *markdown_lines(halves_grid(results.halves)), "")
    for board in results.leaderboards:
        yield from (f"## {board.heading}", "", *markdown_lines(leaderboard_grid(board)), "")
        yield from (*ahead_of_auto(board), "")
    yield from ("## Notes", "", *(f"- {note}" for note in results.notes))


def ahead_of_auto(board: Leaderboard) -> Iterator[str]:
    """Who is ahead of the default, on how many tasks, and by how much at most."""
    auto = board.best("auto")
    if auto is None:
        return
    told = []
    for entry in board.entries:
        gaps = [
            theirs - ours
            for ours, theirs in zip(auto.values, entry.values, strict=True)
            if ours is not None and theirs is not None and theirs > ours
        ]
        if gaps and entry is not auto:
            told.append((-len(gaps), f"{entry.label} on {len(gaps)} (by {max(gaps):.1f} at most)"))
    who = ", ".join(words for _, words in sorted(told)) or "nobody"
    yield f"Ahead of auto, of {len(board.pairs)} tasks: {who}."


Cells = dict[tuple[str, str, str, str, str], dict[str, dict[str, float]]]


def amt_readings(rows: Sequence[ResultRow]) -> Iterator[str]:
    """Lines of the page of all readings of the paper's protocol on the Amazon reviews."""
    cells: Cells = {}
    for row in rows:
        spec, task = row.spec, row.spec.task
        if task.benchmark == "amt" and task.draw == 0 and row.accuracy is not None:
            place = task.setting, task.protocol, task.preprocessing, spec.variant, spec.classifier
            cells.setdefault(place, {}).setdefault(spec.model, {})[task.pair] = row.accuracy
    yield from AMT_READINGS
    for setting in ("US", "SS", "SUP"):
        printed = _amt_printed(setting)
        ranked = [
            (
                fmean(gaps),
                [*reading, *(f"{v:.1f}" for v in means), f"{fmean(gaps):.2f}", f"{max(gaps):.1f}"],
            )
            for reading, means in _amt_means(cells, setting, list(printed))
            for gaps in [[abs(a - b) for a, b in zip(means, printed.values(), strict=True)]]
        ]
        heads = ["W sees", "tf", "Z", *printed, "mean distance", "largest"]
        paper = ["paper", "", "", *(f"{v:.1f}" for v in printed.values()), "", ""]
        yield f"## {setting}\n"
        yield from markdown_lines([heads, paper, *(line for _, line in sorted(ranked))])
        yield ""
    yield "## γ = 2\n"
    gaps = [abs(gap) for gap in _amt_gamma(cells)]
    yield (
        "With γ = 2 (US, test rows, either tf, three Z) S1D and J12D differ from γ = 1 on "
        f"{len(gaps)} pairs of runs by at most {max(gaps, default=0.0):.2f} points."
    )
    yield ""


def _amt_printed(setting: str) -> dict[str, float]:
    found = {m: paper_figure(setting.lower(), "amt", m, "ridge") for m in MODELS}
    return {model: figure for model, figure in found.items() if figure is not None}


def _amt_means(
    cells: Cells, setting: str, models: Sequence[str]
) -> Iterator[tuple[list[str], list[float]]]:
    """Readings of which every model ran on every task, and its means."""
    n_tasks = len(BENCHMARKS["amt"].pairs())
    deltas = {"paper": "1", "paper+ridge_class=3": "3", "paper+ridge_class=10": "10"}
    ridges = {"ridge1": "1", "ridge3": "3", "ridge10": "10"}
    whole = {(v, "ridge"): f"marginalised, δ = {d}" for v, d in deltas.items()}
    whole |= {("paper", c): f"ridge, δ = {d}" for c, d in ridges.items()}
    choices = [(place, place, words) for place, words in whole.items()]
    choices += [
        (("paper", c), (v, "ridge"), f"ridge, δ = {d}; J's own, δ = {own}")
        for (c, d), (v, own) in product(ridges.items(), deltas.items())
    ]
    seen = {"full": "–"} if setting == "SUP" else {p: name for name, p in UNLABELLED.items()}
    kinds = {"paper": "plain", "log-tf": "log"}
    for (protocol, rows), (prepared, tf), (first, joint, words) in product(
        seen.items(), kinds.items(), choices
    ):
        found = [
            cells.get((setting, protocol, prepared, *(joint if m[0] == "J" else first)), {}).get(
                m, {}
            )
            for m in models
        ]
        if all(len(tasks) == n_tasks for tasks in found):
            yield [rows, tf, words], [fmean(tasks.values()) for tasks in found]


def _amt_gamma(cells: Cells) -> Iterator[float]:
    """What γ = 2 changes, task by task."""
    for place, by_model in cells.items():
        if place[3] == "paper+domain_loss_weight=2":
            before = cells.get((*place[:3], "paper", place[4]), {})
            for model, tasks in by_model.items():
                known = before.get(model, {})
                yield from (value - known[task] for task, value in tasks.items() if task in known)


def costs(rows: Sequence[ResultRow]) -> list[list[str]]:
    """What `--all` (1 draw) costs, piece by piece: an estimate in seconds of one core.

    A run that is not on record counts as the mean of its model on the data set (if it ran there
    with W seeing the same target rows, of those runs); of a model that never ran there, as the mean
    of all that did; where none did, nothing is known (nan). A run that pieces share counts in the
    first. Domains of which no row is on record are not there to run: `oc10-decaf6` has two. Rows
    of a GPU tell nothing of a core's time.
    """
    rows = [row for row in rows if "torch" not in row.versions]
    recorded = {row.spec.key: row.seconds for row in rows}
    ends: defaultdict[str, set[str]] = defaultdict(set)
    of_model: defaultdict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in rows:
        task, kind = row.spec.task, row.spec.settings
        ends[task.benchmark] |= {task.source, task.target} - {""}
        if row.seconds > 0:
            of_model[task.benchmark, task.protocol, row.spec.model].append(row.seconds)
            of_model[task.benchmark, row.spec.model].append(row.seconds)
            of_model[task.benchmark, kind].append(row.seconds)
    grid = [["piece", "runs", "on record", "minutes on record", "minutes, estimated"]]
    whole: Counter[str] = Counter()
    present = {name: tuple(found) for name, found in ends.items()}
    counted: set[str] = set()
    for request in everything(1):
        by_data: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for spec in request.specs(present):
            if spec.key in counted:
                continue
            counted.add(spec.key)
            found, name = recorded.get(spec.key), spec.task.benchmark
            alike = (spec.task.protocol, spec.model), (spec.model,), (spec.settings,)
            seen = [of_model[name, *key] for key in alike if (name, *key) in of_model]
            spent = by_data[name]
            spent["runs"] += 1
            spent["known"] += found is not None
            spent["seconds"] += found or 0.0
            spent["all"] += (fmean(seen[0]) if seen else math.nan) if found is None else found
        for name, spent in by_data.items():
            words = [request.settings, request.table, name, request.preprocessing or ""]
            words += [request.unlabelled or "", *(key for key, _ in request.overrides)]
            grid.append(_cost_line(" ".join(word for word in words if word), spent))
            whole += spent
    return [*grid, _cost_line("all", whole)]


def _cost_line(name: str, spent: Mapping[str, float]) -> list[str]:
    counts = [f"{spent[key]:.0f}" for key in ("runs", "known")]
    return [name, *counts, *(f"{spent[key] / 60:.1f}" for key in ("seconds", "all"))]


def _counts(told: Sequence[str]) -> str:
    words = {"holds": "hold", "does not hold": "do not", "cannot be told": "cannot be told"}
    return f"(of {len(told)} claims) " + ", ".join(
        f"{told.count(word)} {said}" for word, said in words.items()
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pages, or tell which differ."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--add", type=Path, nargs="+", default=[], metavar="STORE")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--out", type=Path, metavar="FOLDER")
    args = parser.parse_args(argv)
    if args.add:
        rows = read_rows(ROWS) if ROWS.exists() else []
        for path in args.add:
            with Store(path) as store:
                rows += store.rows()
        write_rows(ROWS, rows)
    if args.time:
        print("\n".join(align(costs(every_row()), rule=True)))
        return 0
    results = results_of(every_row())
    differ = []
    for path, text in pages(results).items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        differ.append(path)
        if not args.check:
            path.write_text(text, encoding="utf-8", newline="\n")
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        count = len(results.rows)
        write_results(results, args.out, RunReport(count, count, 0, 0, 0.0, 1))
        page = benchmarked_page(results, "scripts/paper_tables.py")
        (args.out / "report.html").write_text(page, encoding="utf-8", newline="\n")
    word = "differs from the rows" if args.check else "written"
    for path in differ:
        print(f"{path.relative_to(DOCS.parent)} {word}")
    return 1 if args.check and differ else 0


if __name__ == "__main__":
    sys.exit(main())
