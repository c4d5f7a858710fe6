"""The report of ``marda compare``."""

from __future__ import annotations

from dataclasses import replace

from marda._machine import counted, peak_mb
from marda.adaptation import Compared
from marda.adaptation.methods import explained
from marda.diagnostics.intervals import percent, scaled, signed
from marda.diagnostics.verdict import compared_verdict
from marda.report import charts
from marda.report.page import (
    Cells,
    Chart,
    NumberCell,
    Section,
    Term,
    facts,
    interval_cells,
    number,
    page,
    paragraph,
    points,
    table,
)
from marda.report.sections import (
    beside,
    confidence,
    confusion,
    convergence,
    distances,
    features,
    heat_chart,
    interval_chart,
    pictures,
    times,
    warnings,
)


def compared_page(result: Compared, command: str = "") -> str:
    """One page about several methods on the same files; `command` made it."""
    source, target = result.inputs
    judges = (
        f"and {counted(result.n_labelled_target, 'label')} of it, which no method had seen, "
        "judged them"
        if result.n_labelled_target
        else "which has no labels to judge them by"
    )
    lead = (
        f"{counted(len(result.results), 'method')} learned from "
        f"{counted(result.n_source, 'labelled row')} of {source} how to classify "
        f"{counted(result.n_target, 'row')} of {target}, {judges}."
    )
    verdict = compared_verdict(result.facts)
    # How sure a test is stands with the tests.
    reasons = [r for r in verdict.reasons if r[0] != "How sure"]
    named = dict.fromkeys((result.facts.best, result.facts.first))
    if alike := [name for name in _alike(result) if name not in named]:
        does = "differs" if len(alike) == 1 else "differ"
        told = f"{', '.join(alike)}, which {does} from {result.facts.best} no more than by chance"
        reasons.append(("About as good", f"{told}."))
    reasons += [(name, explained(name)) for name in named if explained(name)]
    # One class for all rows would be as good: no method is to be praised.
    praised = verdict.kind == "good" and result.facts.no_better is not None
    return page(
        kind="marda compare",
        about=f"{source} → {target}",
        title="Which method should I use?",
        lead=lead,
        verdict=replace(verdict, kind="unclear" if praised else verdict.kind, reasons=reasons),
        figures=_figures(result),
        sections=compared_sections(result),
        command=command,
    )


def _alike(result: Compared) -> list[str]:
    """Methods that labels do not tell from the best one."""
    best = result.facts.best
    pairs = [pair for pair in result.pairs if best in (pair.a, pair.b) and not pair.significant]
    return [pair.b if pair.a == best else pair.a for pair in pairs]


def compared_sections(result: Compared) -> list[Section]:
    """What stands below the answer."""
    if not result.details:
        raise ValueError("this result has no details to show: compare with a report.")
    best = result.best
    name, shown = result.results[best].method, result.details[best]
    after = f"after adaptation by {name}"
    sections = [
        warnings(shown.findings, shown.checks),
        _methods(result),
        *_pairs(result),
        _distances(result),
        pictures(shown.evidence, (result.n_source, result.n_target), after),
        features(shown.evidence.gaps, after, moved=shown.evidence.moved),
        _predictions(result),
    ]
    for method, details in zip(result.results, result.details, strict=True):
        if details.evidence.losses:
            sections.append(convergence(details.evidence.losses, f"Convergence of {method.method}"))
    sections.append(times(result.times, result.seconds, peak_mb()))
    if result.notes:
        sections.append(Section("Notes", (points(list(dict.fromkeys(result.notes))),)))
    return sections


def _figures(result: Compared) -> list[tuple[str, str]]:
    best = result.results[result.best]
    shown = [("methods", str(len(result.results))), ("target rows", f"{result.n_target:,}")]
    if best.accuracy is not None:
        shown.append(("labelled rows that judged", f"{result.n_labelled_target:,}"))
        shown.append((f"right with {best.method}, the best", percent(best.accuracy.value)))
    return shown


def _methods(result: Compared) -> Section:
    first = result.results[0].method
    rows: list[Cells] = []
    scored = [(r.method, r.accuracy) for r in result.results if r.accuracy is not None]
    for r, details in zip(result.results, result.details, strict=True):
        right: Cells = []
        if r.accuracy is not None:
            low, high = (percent(v) for v in (r.accuracy.low, r.accuracy.high))
            right = [
                NumberCell(percent(r.accuracy.value), r.accuracy.value),
                NumberCell(f"{low} to {high}", r.accuracy.low),
            ]
        apart = details.a_distance
        rows.append(
            [
                Term(r.method, explained(r.method)),
                *right,
                NumberCell(percent(r.agreement), r.agreement),
                number(None if apart is None else apart.value),
                number(r.mmd.value),
                NumberCell(f"{r.seconds:.2f} s", r.seconds),
            ]
        )
    header = (
        "method",
        *(("right", "95% interval") if scored else ()),
        *(f"as {first}", "A-distance after", "MMD after", "time"),
    )
    whole = table("Every method; a click on a heading sorts.", header, rows)
    legend = facts([(r.method, explained(r.method)) for r in result.results])
    if not scored:
        return Section("Methods", (legend, whole))
    name = "Labelled target rows that are right, with 95% intervals."
    axis = "share that is right"
    chart = interval_chart(name, "method", scored, axis, ".1%", drawn=".0%", zero=False)
    return Section("Methods", (legend, *beside([chart, *_recalls(result)]), whole))


def _recalls(result: Compared) -> list[Chart]:
    """Class × method: what a mean over classes hides."""
    classes = result.details[0].evidence.classes
    cells = []
    for k, label in enumerate(classes):
        for method, details in zip(result.results, result.details, strict=True):
            if details.confusion is None:
                return []
            total = int(details.confusion[k].sum())
            if total:
                share = float(details.confusion[k, k] / total)
                cells.append((label, method.method, share, percent(share)))
    name = "Share of rows that are right, by true class and method."
    return [heat_chart(name, cells, down="class", across="method", value="right", bottom=0.0)]


def _pairs(result: Compared) -> list[Section]:
    if not result.pairs:
        return []
    name = "Difference in percentage points: the method on the left minus the one above."
    cells = []
    for p in result.pairs:
        for down, across, sign in ((p.a, p.b, 1), (p.b, p.a, -1)):
            value = 100 * sign * p.difference.value
            text = signed(value) + ("*" if p.significant else "")
            cells.append((down, across, value, text))
    order = [r.method for r in result.results]
    cells.sort(key=lambda c: (order.index(c[0]), order.index(c[1])))
    rows: list[Cells] = [
        [
            f"{p.a} − {p.b}",
            *interval_cells(scaled(p.difference), "+.1f"),
            number(p.p_value, ".2g"),
            "yes" if p.significant else "no",
        ]
        for p in result.pairs
    ]
    header = ("pair", "points", "95% interval", "p, corrected", "more than chance")
    drawing = charts.heat_map(
        cells, down="method", across="minus", value="points", bottom=0.0, order=order, signs=True
    )
    sure = [text for name, text in compared_verdict(result.facts).reasons if name == "How sure"]
    return [
        Section(
            "Which methods differ",
            (
                *(paragraph(text) for text in sure),
                paragraph(
                    "Two methods are compared on the rows that only one of them gets right (exact "
                    "McNemar test, corrected by Holm for the number of pairs); a star marks "
                    "differences beyond chance at the 5% level."
                ),
                Chart(drawing, name, table(name, header, rows)),
            ),
        )
    ]


def _distances(result: Compared) -> Section:
    assert result.before is not None
    apart, mean = result.before
    a_rows = [] if apart is None else [("before", apart)]
    for r, details in zip(result.results, result.details, strict=True):
        if details.a_distance is not None:
            a_rows.append((f"after {r.method}", details.a_distance))
    return distances(
        a_rows, [("before", mean), *((f"after {r.method}", r.mmd) for r in result.results)]
    )


def _predictions(result: Compared) -> Section:
    best, details = result.results[result.best].method, result.details[result.best]
    shown: list[str | Chart] = [confidence(details.evidence, details.facts)]
    if details.confusion is not None:
        of = f"{best} on {counted(result.n_labelled_target, 'labelled target row')}"
        shown.append(confusion(details.confusion, details.evidence.classes, of))
    return Section(f"Predictions of {best}", beside(shown))
