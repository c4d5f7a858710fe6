"""A small page of every kind, from real results; some of them with hostile names."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.fakes import made_figure, plan_leaderboard, plan_table
from marda.adaptation import ReadOptions, adapt, compare
from marda.benchmarks import demonstration, leaderboard
from marda.benchmarks.results import Results
from marda.benchmarks.store import ResultRow, failed, stamp
from marda.benchmarks.tables import build_table, check_findings
from marda.datasets import Dataset, Domain, changed_digits

HOSTILE = "</script><img src=x onerror=alert(1)>"
CLASSES = ("<b>dry", "wet & cold")


def made(spec, **changes):
    """A row whose figure follows from its spec alone."""
    figure = made_figure(spec)
    values = {"accuracy": figure, "balanced_accuracy": figure, "fit_seconds": 0.5, "peak_mb": 10.0}
    return stamp(ResultRow(spec, "done", **{**values, **changes}))


def hostile_files(folder: Path) -> tuple[Path, Path]:
    """Two CSV files whose columns and labels are markup, and whose rows give warnings."""
    rng = np.random.default_rng(0)
    for name, n, shift in (("source.csv", 60, 0.0), ("target.csv", 50, 1.5)):
        y = np.arange(n) % 2
        X = np.column_stack([rng.normal(y + shift, 0.5), 1e6 * rng.normal(size=n), 9 * shift + y])
        lines = [",".join([*map(str, x), CLASSES[k]]) for x, k in zip(X.tolist(), y, strict=True)]
        header = f'"{HOSTILE}",large,number,y'
        (folder / name).write_text("\n".join([header, *lines]) + "\n")
    target = (folder / "target.csv").read_text()
    for label in CLASSES:
        target = target.replace(f",{label}\n", ",\n")
    (folder / "target.csv").write_text(target)
    return folder / "source.csv", folder / "target.csv"


def _page(work, source, target, options, **parameters) -> str:
    """The text that a command would write."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        if source is None:
            source, target = hostile_files(Path(folder))
        page = _adapted if work is adapt else _compared
        work(source, target, options, report=(path, page), **parameters)
        return path.read_text(encoding="utf-8")


def _adapted(result):
    from marda.report.adapted import adapted_page

    return adapted_page(result, "marda adapt")


def _compared(result):
    from marda.report.compared import compared_page

    return compared_page(result, "marda compare")


SAMPLE = ReadOptions("y", id="id")


def few_digits(change: str) -> Dataset:
    """A third of the digits: enough for every part of a page."""
    whole = changed_digits(change)
    few = {name: Domain(rows.X[:300], rows.y[:300]) for name, rows in whole.domains.items()}
    return replace(whole, domains=few)


def _demo() -> str:
    from marda.report.demonstrated import demonstrated_page

    pairs = [("editorials", "tweets")]
    with patch.object(demonstration, "changed_digits", few_digits):
        done = demonstration.run_demo(["turn"], pairs, n_features=150)
    return demonstrated_page(done, "marda demo")


def _reproduced() -> str:
    from marda.report.benchmarked import benchmarked_page

    plans = {
        "us": plan_table("us", datasets=["amt"]),
        "sup": plan_table("sup", datasets=["oc10"], models=["BL", "S1", "S1D"], draws=2),
        "off31": plan_table("off31", models=["BL", "S1D"]),
    }
    rows = [made(spec) for specs in plans.values() for spec in specs]
    rows[0] = made(rows[0].spec, message=f"a warning with {HOSTILE}")
    tables = tuple(build_table(name, specs, rows) for name, specs in plans.items())
    failures = tuple(failed(plans["us"][:2], f"no luck {HOSTILE}"))
    return benchmarked_page(Results(tables, (), check_findings(rows), tuple(rows), failures))


def _auto() -> str:
    from marda.report.benchmarked import benchmarked_page

    specs = plan_leaderboard("us", datasets=["amt"], draws=1)
    rows = tuple(made(spec) for spec in specs)
    boards = leaderboard.leaderboards(specs, rows)
    return benchmarked_page(Results((), boards, (), rows, (), tuple(leaderboard.notes(specs))))


KINDS = {
    "adapt": lambda: _page(adapt, None, None, ReadOptions("y")),
    "adapt-labelled": lambda: _page(
        adapt, "sample:source", "sample:labelled", SAMPLE, method="J12D"
    ),
    "compare": lambda: _page(compare, "sample:source", "sample:labelled", SAMPLE),
    "compare-unlabelled": lambda: _page(
        compare, None, None, ReadOptions("y"), methods=("BL", "J12M")
    ),
    "demo": _demo,
    "reproduce": _reproduced,
    "reproduce-auto": _auto,
}


def heads() -> str:
    """What notebooks show of an adaptation and of a check, whose columns have long names."""
    import pandas as pd

    import marda

    rng = np.random.default_rng(0)
    frames = []
    for n, shift in ((60, 0.0), (50, 1.5)):
        y = np.arange(n) % 2
        names = [f"mean_monthly_spending_on_household_goods_{k:02d}_in_euro" for k in range(4)]
        columns = {name: rng.normal(y + shift, 0.5) for name in names}
        frames.append(pd.DataFrame({**columns, "kind": np.array(["dry", "wet"])[y]}))
    source, target = frames[0], frames[1].drop(columns="kind")
    shown = (
        marda.adapt(source, target, label="kind", method="S1D")._repr_html_(),
        marda.check(source, target, label="kind")._repr_html_(),
    )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="color-scheme" content="light dark"><title>A notebook</title></head>'
        f"<body><main><h1>A notebook</h1>{'<hr>'.join(shown)}</main><script>"
        "document.documentElement.dataset.ready = 'yes';</script></body></html>"
    )


@cache
def page_of(kind: str) -> str:
    """The text of one page, made once."""
    return KINDS[kind]()
