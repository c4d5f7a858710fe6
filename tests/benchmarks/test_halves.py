"""Lines by half from made rows."""

from __future__ import annotations

import pytest

from marda.benchmarks import leaderboard
from marda.benchmarks.halves import chosen_rows, half_lines, halves_grid
from marda.benchmarks.leaderboard import leaderboards
from marda.benchmarks.plan import plan_leaderboard

from .fakes import made_row

FOLDS = {"ridge": 70.0, "logistic": 75.0, "forest": 75.0}
FIGURES = {"auto": 80.0, "ridge": 90.0, "logistic": 78.0, "forest": 60.0}


def rows_of(specs, auto=None, **params):
    """Rows with FIGURES; `auto` maps a task to what auto reaches there."""
    rows = []
    for spec in specs:
        figure = FIGURES[spec.classifier]
        facts = {"expected": 84.0, "ece": 1.0, **params}
        if spec.model == "auto":
            figure = (auto or {}).get(spec.task.pair, figure)
        else:
            facts = {"source_folds": FOLDS[spec.classifier]}
        rows.append(made_row(spec, accuracy=figure, balanced_accuracy=figure - 10, params=facts))
    return rows


def plan(*names, **options):
    return plan_leaderboard(benchmarks=names, **options)


def line_of(lines, label, half):
    (found,) = (line for line in lines if (line.label, line.half) == (label, half))
    return found


def test_source_folds_choose_and_target_labels_do_not():
    specs = plan("digits", tasks=["blur"])
    chosen = chosen_rows(rows_of(specs))
    # ridge is best on the target, logistic and forest on the source; the first of the two counts
    assert [row.spec.classifier for row in chosen.values()] == ["logistic"]
    assert chosen_rows(rows_of(specs)[:-1]) == {}  # the forest is missing


def test_halves_are_apart():
    specs = plan("tables")
    auto = {"Wages union by south →": 10.0, "HI whi by region ←": 76.9}
    development, report = half_lines(specs, rows_of(specs, auto))
    assert (development.half, report.half) == ("development", "report")
    assert (development.tasks, report.tasks) == (38, 34)
    assert (development.fallen, report.fallen) == (1, 1)
    assert development.auto == pytest.approx(70 - 3.1 / 38)  # balanced accuracy
    assert report.auto == pytest.approx(70 - 70 / 34)
    assert development.source == report.source == pytest.approx(68)
    assert report.difference == pytest.approx(2 - 70 / 34)
    assert development.off == pytest.approx((37 * 4 + 7.1) / 38)  # of accuracy
    assert development.expected == pytest.approx(84)
    assert development.held is None


def test_a_kind_of_task_has_a_line_and_published_figures_beside_it():
    specs = plan("skada-bench", draws=5)
    lines = half_lines(specs, rows_of(specs, {"mushrooms e>t": 60.0}))
    assert len(lines) == 6 + 2
    line = line_of(lines, "SKADA-Bench mushrooms", "report")
    assert (line.auto, line.source, line.fallen, line.tasks) == (70, 78, 1, 2)
    grid = halves_grid(lines)
    told = dict(zip(grid[0], next(row for row in grid if "mushrooms" in row[0]), strict=True))
    assert told["best published"] == "88.4 (SA)"
    assert (told["Train Src"], told["Train Tgt"]) == ("72.3", "100.0")
    assert told["difference"] == "-8.0"
    assert told["intervals hold"] == ""
    total = line_of(lines, "SKADA-Bench all", "report")
    assert grid[-1][0] == total.label == "SKADA-Bench all"
    assert grid[-1][-1] == ""


@pytest.mark.parametrize("part", [{"draws": 4}, {"draws": 5, "tasks": ["mushrooms e>t"]}])
def test_published_figures_stand_beside_whole_kinds_only(part):
    specs = plan("skada-bench", **part)
    lines = half_lines(specs, rows_of(specs))
    assert "Train Src" not in halves_grid(lines)[0]


def test_seeds_of_a_generated_case_are_in_both_halves():
    specs = plan("generated", tasks=["one row", "moved"], draws=4)
    rows = rows_of(specs)
    for row in rows:
        if row.spec.model == "auto" and row.spec.task.draw % 2:
            row.params["expected"] = 74.0
    lines = half_lines(specs, rows)
    assert len(lines) == 2 * 2 + 2
    assert line_of(lines, "generated shifts moved", "development").off == 4
    assert line_of(lines, "generated shifts moved", "report").off == 6
    assert "Train Src" not in halves_grid(lines)[0]


def test_intervals_that_hold():
    specs = plan("generated", tasks=["moved"], draws=4)
    rows = rows_of(specs, expected_low=80.0, expected_high=90.0)  # 80 is on the bound
    for row in rows:
        if row.spec.task.draw == 2 and "expected_low" in row.params:
            row.params["expected_low"] = 80.5
    lines = half_lines(specs, rows)
    assert line_of(lines, "generated shifts moved", "development").held == 50
    assert line_of(lines, "generated shifts moved", "report").held == 100
    grid = halves_grid(lines)
    assert grid[1][grid[0].index("intervals hold")] == "50 %"


def test_a_missing_row_leaves_no_mean():
    specs = plan("digits")
    rows = rows_of(specs)
    gone = next(r for r in rows if r.spec.model == "auto" and r.spec.task.half == "report")
    development, report = half_lines(specs, [row for row in rows if row is not gone])
    assert development.auto == 70
    assert (report.auto, report.fallen, report.difference) == (None, None, None)
    assert report.source == 68
    assert half_lines(plan_leaderboard(benchmarks=["off31"]), []) == ()


def test_overrides_have_lines_of_their_own():
    specs = plan("digits", overrides=[("scoring", "entropy")])
    assert half_lines(specs, rows_of(specs))[0].label.endswith('all, auto+scoring="entropy"')


def test_the_board_is_compared_with_what_folds_chose():
    specs = plan("skada-bench")
    (board,) = leaderboards(specs, rows_of(specs, dict.fromkeys(["subspace 0"], 70.0)))
    assert board.baseline.label == "source-only by folds"
    assert set(board.baseline.values) == {78.0}
    assert board.harm()[0] == ("subspace 0", -8.0)
    grid = leaderboard.leaderboard_grid(board)  # tasks go down
    assert grid[0] == ["", *(entry.label for entry in board.entries)]
    assert len(grid) == 1 + 24 + 3
    assert any(line[0] == "phishing 1>-1" for line in grid)
    told = dict(zip(*leaderboard.summary_grid([board]), strict=True))
    assert told["source-only"] == "78.0"
    assert told["worst − source"] == "-8.0 (subspace 0)"
    notes = "\n".join(leaderboard.notes(specs))
    for words in ("CRC-32", "five folds", "arXiv:2407.11676"):
        assert words in notes


def test_a_long_list_of_harm_is_cut():
    specs = plan("tables")
    found = leaderboards(specs, rows_of(specs, dict.fromkeys({s.task.pair for s in specs}, 1.0)))
    bad = next(line for line in leaderboard.checks(found) if "no harm" in line)
    assert bad.endswith(", and 66 more")
