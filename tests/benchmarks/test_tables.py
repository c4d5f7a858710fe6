import math
from statistics import fmean, stdev

import pytest

from marda.benchmarks import render
from marda.benchmarks.tables import SQUEEZENET, Accuracies, Column, build_table, check_findings

from .fakes import made_row, plan_table


def rows_for(specs, figure):
    """Rows whose accuracy is ``figure(spec)``; None leaves the row out."""
    values = [(spec, figure(spec)) for spec in specs]
    return [made_row(s, accuracy=v, balanced_accuracy=v - 1) for s, v in values if v is not None]


def cell_of(table, benchmark, model, column):
    block = next(b for b in table.blocks if b.benchmark == benchmark)
    row = next(r for r in block.rows if r.label == model)
    return row.cells[block.columns.index(column)]


def test_mean_over_tasks_next_to_the_paper():
    specs = plan_table("us")
    by_model = {"BL": 80.0, "S1": 84.04, "S1D": 85.0, "J12": 84.0}
    table = build_table("us", specs, rows_for(specs, lambda s: by_model.get(s.model, 70.0)))
    assert [b.benchmark for b in table.blocks] == ["oc10", "off31", "amt"]
    assert [r.label for r in table.blocks[0].rows] == [
        "BL", "MCF", "S1", "S1M", "S1D", "J12", "J12M", "J12D",
        "DA-SVM (quoted)", "auxiliary (quoted)", "JDA (quoted)", "TTM (quoted)",
    ]  # fmt: skip
    s1 = cell_of(table, "oc10", "S1", "ridge")
    assert (s1.ours.mean, s1.ours.stderr, s1.ours.rows) == (pytest.approx(84.04), None, 12)
    assert (s1.paper, s1.difference, s1.ours_better, s1.paper_better) == (84.0, 0.0, False, False)
    s1d = cell_of(table, "oc10", "S1D", "ridge")
    assert (s1d.difference, s1d.paper_better, s1d.improves, s1d.paper_improves) == (
        -0.6, True, True, True,
    )  # fmt: skip
    assert not cell_of(table, "oc10", "J12", "ridge").improves
    assert cell_of(table, "oc10", "S1D", "nn").paper_improves is False
    assert cell_of(table, "amt", "S1D", "nn").paper is None
    assert cell_of(table, "oc10", "S1M", "ridge").paper is None
    assert SQUEEZENET in table.notes


def test_baselines_are_never_underlined():
    specs = plan_table("sup", draws=2)
    table = build_table("sup", specs, rows_for(specs, lambda s: 95.0 if s.model == "BL" else 90.0))
    for benchmark in ("oc10", "off31"):
        cell = cell_of(table, benchmark, "BL", "nn")  # the paper's BL is above its S1 here
        assert not cell.improves
        assert not cell.paper_improves


def test_standard_error_is_over_draws_of_task_means():
    specs = plan_table("ss", datasets=["off31"], draws=4)

    def value(spec):
        return 70 + spec.task.draw**2 + len(spec.task.source)

    table = build_table("ss", specs, rows_for(specs, value))
    figure = cell_of(table, "off31", "S1", "nn").ours
    tasks = [s for s in specs if s.model == "S1" and s.classifier == "nn"]
    means = [fmean(value(s) for s in tasks if s.task.draw == d) for d in range(4)]
    assert figure.mean == pytest.approx(fmean(means))
    assert figure.stderr == pytest.approx(stdev(means) / math.sqrt(4))
    assert (figure.rows, figure.expected) == (24, 24)


def test_partial_rows_are_shown_but_not_compared():
    specs = plan_table("us", datasets=["amt"])
    table = build_table(
        "us", specs, rows_for(specs, lambda s: 80.0 if s.task.source == "dvd" else None)
    )
    cell = cell_of(table, "amt", "S1", "ridge")
    assert (cell.ours.rows, cell.ours.expected, cell.paper) == (3, 12, 81.6)
    assert cell.difference is None
    assert not cell.ours_better
    assert any("216 of 288 rows are missing" in note for note in table.notes)


def test_incomplete_draws_do_not_bias_the_mean():
    specs = plan_table("ss", datasets=["off31"], draws=3, models=["S1"], classifiers=["nn"])
    done = [s for s in specs if s.task.draw < 2 or s.task.pair == "dslr-webcam"]
    table = build_table("ss", specs, rows_for(done, lambda s: 99.0 if s.task.draw == 2 else 70.0))
    figure = cell_of(table, "off31", "S1", "nn").ours
    assert (figure.mean, figure.rows, figure.expected) == (70.0, 13, 18)


def test_a_narrowed_plan_is_not_compared_with_the_papers_mean():
    specs = plan_table("us", datasets=["amt"], tasks=["books-dvd"])
    table = build_table("us", specs, rows_for(specs, lambda s: 80.0))
    assert cell_of(table, "amt", "S1", "ridge").difference is None


def test_off31_tasks():
    specs = plan_table("off31")
    table = build_table("off31", specs, rows_for(specs, lambda s: 60.0 + (s.model == "S1D")))
    (block,) = table.blocks
    assert block.columns == ("A→W", "D→W", "W→D", "D→A", "W→A", "A→D", "mean")
    rows = {row.label: row.cells for row in block.rows}
    assert [c.paper for c in rows["S1D+ridge"]] == [53.9, 91.2, 95.1, 47.3, 49.0, 55.5, 65.3]
    assert [c.difference for c in rows["S1D+ridge"]][:2] == [7.1, -30.2]
    assert all(c.improves for c in rows["S1D+ridge"])
    assert [c.paper for c in rows["RGrad (quoted)"]] == [67.3, 94.0, 93.7, None, None, None, None]
    assert rows["GFK+SVM (quoted)"][0].ours is None


def test_surf():
    specs = plan_table("surf", draws=2)
    table = build_table("surf", specs, rows_for(specs, lambda s: 56.0))
    assert cell_of(table, "oc10-surf", "J12C", "dscm").difference == 0.2
    assert cell_of(table, "oc10-surf", "S1", "dscm").paper is None
    assert SQUEEZENET not in table.notes
    assert any("GFK 48.6, SA 53.6, MMDT 52.5" in note for note in table.notes)


def test_decaf6_rows_stand_next_to_the_paper_without_the_squeezenet_note():
    specs = plan_table("us", datasets=["oc10-decaf6"])
    table = build_table("us", specs, rows_for(specs, lambda s: 85.0))
    assert cell_of(table, "oc10-decaf6", "S1", "ridge").difference == 1.0
    assert SQUEEZENET not in table.notes


def test_other_variants_are_not_mixed_in():
    specs = plan_table("us", datasets=["amt"])
    others = plan_table("us", datasets=["amt"], settings="marda")
    others += plan_table("us", datasets=["amt"], preprocessing="log-tf")
    rows = rows_for(others, lambda s: 99.0) + rows_for(specs, lambda s: 80.0)
    assert cell_of(build_table("us", specs, rows), "amt", "S1", "ridge").ours.mean == 80.0


def test_every_reading_of_the_ridge_stands_next_to_the_papers():
    specs = plan_table("us", datasets=["amt"], classifiers=["ridge10"], unlabelled="test")
    table = build_table("us", specs, rows_for(specs, lambda s: 81.5))
    s1 = next(row for row in table.blocks[0].rows if row.label == "S1")
    assert (s1.cells[0].paper, s1.cells[0].difference) == (81.6, -0.1)
    assert any("sees the target's test rows" in note for note in table.notes)


def test_quoted_systems_are_rows_of_the_tables():
    specs = plan_table("us", datasets=["oc10", "amt"])
    table = build_table("us", specs, rows_for(specs, lambda s: 80.0))
    oc10, amt = table.blocks
    quoted = {row.label: [cell.paper for cell in row.cells] for row in oc10.rows[-4:]}
    assert quoted["JDA (quoted)"] == [None, None, 87.5]
    assert quoted["DA-SVM (quoted)"][-1] == 70.3
    assert amt.rows[-1].label == "DANN (quoted)"
    assert all(cell.ours is None and cell.paper is None for cell in amt.rows[-1].cells)
    assert any(note.startswith("Quoted:") for note in table.notes)
    surf = plan_table("surf", draws=1)
    rows = build_table("surf", surf, []).blocks[0].rows
    assert [row.label for row in rows[-3:]] == ["GFK (quoted)", "SA (quoted)", "MMDT (quoted)"]


def test_findings_are_of_one_protocol():
    specs = plan_table("us", datasets=["amt"], classifiers=["ridge"], unlabelled="both")
    rows = rows_for(specs, lambda s: {"S1": 2.0}.get(s.model, 1.0))
    assert {f.verdict for f in check_findings(rows)} == {"not enough rows"}
    assert check_findings(rows, unlabelled="both")[0].verdict == "yes"


@pytest.mark.parametrize(
    ("gain", "spread", "told"),
    [(1.0, 0.5, "holds"), (-1.0, 0.5, "does not hold"), (0.1, 2.0, "cannot be told")],
)
def test_findings_have_an_interval_over_tasks(gain, spread, told):
    specs = plan_table("us", datasets=["amt"], classifiers=["ridge"])
    pairs = sorted({s.task.pair for s in specs})

    def value(spec):
        wave = spread * (-1) ** pairs.index(spec.task.pair)
        return 80.0 + (gain + wave) * (spec.model == "S1")

    finding = check_findings(rows_for(specs, value))[0]
    (item,) = finding.known
    low, high = item.interval
    half = 2.200985 * spread * math.sqrt(12 / 11) / math.sqrt(12)  # t of 11 degrees of freedom
    assert (item.difference, low) == (pytest.approx(gain), pytest.approx(gain - half, abs=1e-5))
    assert high == pytest.approx(gain + half, abs=1e-5)
    assert finding.told == item.told == told
    grid = render.findings_grid([finding])
    assert grid[1][1:3] == ["3 of 3", f"{told} (1 of 3 have rows)"]
    assert grid[1][4].startswith("amt US ridge: S1 − BL ")
    assert grid[1][3].startswith(f"{told}: ")  # one comparison is its own average
    assert finding.average.interval == item.interval


def test_findings_on_average_are_means_of_comparisons_by_task():
    specs = plan_table("us", datasets=["amt", "oc10"], classifiers=["ridge"])
    gain = {"amt": 3.0, "oc10": -1.0}
    rows = rows_for(specs, lambda s: gain[s.task.benchmark] * (s.model == "S1"))
    mda = check_findings(rows)[0]
    assert mda.told == "does not hold"
    assert mda.average.difference == pytest.approx(1.0)  # 12 tasks of +3 and 12 of -1
    assert mda.average.told == "holds"
    similar = next(f for f in check_findings([]) if "similar" in f.statement)
    assert similar.average is None
    assert mda.average.text == "on average"


def test_claims_may_compare_classifiers():
    specs = plan_table("us", datasets=["amt"])
    rows = rows_for(specs, lambda s: {"ridge": 80.0, "nn": 60.0, "dscm": 81.0}[s.classifier])
    found = next(f for f in check_findings(rows) if f.statement.startswith("on text, ridge is"))
    assert [e.difference for e in found.evidence] == [20.0, 20.0, -1.0, -1.0]
    assert found.evidence[0].text == "amt US ridge: S1 − S1 nn"
    assert (found.told, found.claim.printed()) == ("does not hold", (0, 0))


def test_findings_without_rows():
    assert {f.verdict for f in check_findings([])} == {"not enough rows"}


def test_findings_yes_no_and_what_lacks_rows():
    specs = plan_table("us", datasets=["amt", "oc10"], classifiers=["ridge"])
    level = {"BL": 70.0, "S1": 80.0, "S1D": 80.0, "J12": 75.0}

    def value(spec):
        if spec.model == "S1D" and spec.task.benchmark == "oc10":
            return 79.5
        return level.get(spec.model, 50.0)

    mda, domain, text, joint, classes = check_findings(rows_for(specs, value))[:5]
    assert (mda.verdict, mda.summary) == ("yes", "holds in 2 of 2 comparisons, 1 lacks rows")
    assert (domain.verdict, domain.summary) == ("no", "holds in 1 of 2 comparisons, 1 lacks rows")
    assert text.verdict == "yes"
    assert joint.verdict == classes.verdict == "not enough rows"
    assert [e.difference for e in text.evidence] == [5.0]


@pytest.mark.parametrize(("cost", "verdict"), [(0.19, "yes"), (0.0, "yes"), (0.3, "no")])
def test_harmless_has_a_stated_limit(cost, verdict):
    specs = plan_table("sup", datasets=["off31"], draws=2)

    def value(spec):
        return 80.0 - cost if spec.model.endswith("C") else 80.0

    assert check_findings(rows_for(specs, value))[4].verdict == verdict


def test_a_finding_needs_every_task():
    specs = plan_table("us", datasets=["amt"], classifiers=["ridge"], tasks=["books-dvd"])
    assert {f.verdict for f in check_findings(rows_for(specs, lambda s: 1.0))} == {
        "not enough rows"
    }


def test_differences_are_paired_by_draw():
    specs = plan_table("sup", datasets=["off31"], draws=3, classifiers=["nn"])
    rows = rows_for(
        [s for s in specs if not (s.model == "S1" and s.task.draw == 2)],
        lambda s: 70.0 + 10 * s.task.draw + (s.model == "S1C"),
    )
    pairs = list(dict.fromkeys(s.task.pair for s in specs))
    gaps = Accuracies(rows).gaps(Column.of(specs[0]), "S1C", "S1", pairs)
    assert gaps == pytest.approx([1.0] * len(pairs))
