"""Pages of benchmarks: figures first, and one line for all warnings that are alike."""

from __future__ import annotations

from benchmarks.fakes import made_row, plan_table
from marda.benchmarks.results import Results
from marda.benchmarks.store import failed
from marda.benchmarks.tables import build_table, check_findings
from marda.report.benchmarked import _figure, benchmarked_sections
from marda.report.page import NumberCell

SPECS = plan_table("us", datasets=["oc10"], models=["BL", "S1", "J12", "J12D"])


def sections(specs=SPECS, **messages):
    rows = tuple(made_row(spec, message=messages.get(spec.model, "")) for spec in specs)
    tables = (build_table("us", specs, rows),)
    failures = tuple(failed(specs[:2], "no luck"))
    results = Results(tables, (), check_findings(rows), rows, failures)
    return {section.title: section.parts for section in benchmarked_sections(results)}


def test_warnings_stand_below_the_tables_alike_ones_in_one_line():
    text = "ConvergenceWarning: the alternation of {} stopped at max_iter={}"
    found = sections(
        J12=f"{text.format('J12', 10)}; UserWarning: small", J12D=text.format("J12D", 12)
    )
    titles = list(found)
    assert titles.index("Warnings") > max(titles.index(t) for t in titles if "Table" in t)
    (told,) = found["Warnings"]
    n = sum(spec.model == "J12" for spec in SPECS)
    assert told.count("<li>") == 3
    assert f"<li>2 runs of {SPECS[0].model} failed: no luck</li>" in told
    said = "warned, for instance: the alternation of J12 stopped at max_iter=10</li>"
    assert f"<li>{2 * n} runs of J12, J12D {said}" in told
    assert f"<li>{n} runs of J12 warned: small</li>" in told
    assert "Warning:" not in told


def test_findings_without_rows_are_counted_and_columns_without_figures_left_out():
    found = sections()
    (findings,) = (parts for title, parts in found.items() if "findings" in title)
    told = "".join(findings)
    assert "not enough rows</td>" not in told
    assert "more findings: not enough rows to tell." in told
    some = sections([spec for spec in SPECS if spec.task.pair == "amazon-dslr"])
    for parts, there in ((found, True), (some, False)):
        (block, *_) = next(p for title, p in parts.items() if title.startswith("Table"))
        assert "ridge, paper" in block
        assert ("ridge − paper" in block) is there  # no mean of the paper's tasks to compare


def test_cells_that_begin_with_a_figure_sort_by_it():
    assert _figure("−1.5 [−2.0, −1.0]") == NumberCell("−1.5 [−2.0, −1.0]", -1.5)
    assert _figure("< 0.001") == NumberCell("< 0.001", 0.001)
    assert _figure("1,200") == NumberCell("1,200", 1200)
    assert _figure("development") == "development"
    assert _figure("–").text == "–"
