"""Leaderboards from made rows: means, harm, and what is not there."""

from __future__ import annotations

import pytest

from marda.benchmarks import leaderboard
from marda.benchmarks.leaderboard import chosen_rows, half_lines, halves_grid, leaderboards
from marda.benchmarks.render import align, markdown_lines

from .fakes import made_row, plan_leaderboard

SPECS = plan_leaderboard(datasets=["off31"])
FIGURES = {"auto": 80.0, "source-only": 70.0, "CORAL": 72.0, "S1M": 75.0}


def rows_of(specs=SPECS, **changes):
    """Rows with FIGURES; `changes` maps a task to what auto reaches there."""
    rows = []
    for spec in specs:
        figure = FIGURES.get(spec.model, 60.0)
        if spec.model == "auto":
            figure = changes.get(spec.task.pair.replace("-", "_"), figure)
        params = {"ece": 4.0} if spec.model == "auto" else {}
        rows.append(made_row(spec, accuracy=figure, balanced_accuracy=figure - 20, params=params))
    return rows


def test_a_board_has_every_method_and_its_mean():
    (board,) = leaderboards(SPECS, rows_of(amazon_dslr=74.0))
    assert len(board.pairs) == 6
    auto = board.best("auto")
    assert auto.mean == pytest.approx((5 * 80 + 74) / 6)
    assert auto.fit_seconds == 0.5
    assert board.best("fixed").label == "S1M ridge"
    assert board.best("peer").label == "CORAL svm"
    labels = [line.label for line in board.entries]
    assert "S1M ridge (scaling balanced)" in labels
    assert len(labels) == len(set(labels))


def test_the_summary_names_the_best_of_each_kind():
    found = leaderboards(SPECS, rows_of())
    header, line = leaderboard.summary_grid(found)
    told = dict(zip(header, line, strict=True))
    assert told["auto"] == "80.0"
    assert told["ECE"] == "4.0"
    assert told["best fixed"] == "75.0 (S1M ridge)"
    assert told["best alternative"] == "72.0 (CORAL svm)"
    assert told["worst − source"].startswith("+10.0")


def test_members_in_hindsight_and_the_guess():
    rows = rows_of()
    for row in rows:
        if row.spec.model == "auto":
            row.params.update(best_member_accuracy=81.6, expected=74.0)
    found = leaderboards(SPECS, rows)
    told = dict(zip(*leaderboard.summary_grid(found), strict=True))
    assert told["best member"] == "81.6"
    assert told["guess off by"] == "6.0"
    assert any(
        line.startswith("- [ ] no") and line.endswith("hindsight (80.0 against 81.6)")
        for line in leaderboard.checks(found)
    )


def test_harm():
    (good,) = leaderboard.checks(leaderboards(SPECS, rows_of(amazon_dslr=69.0)))
    assert good[:9] == "- [x] yes"
    (bad,) = leaderboard.checks(leaderboards(SPECS, rows_of(amazon_dslr=68.9, dslr_webcam=10.0)))
    assert bad.startswith("- [ ] no: ")
    assert bad.endswith(": dslr-webcam -60.0, amazon-dslr -1.1")


def test_a_missing_row_leaves_no_mean():
    rows = [
        row for row in rows_of() if (row.spec.model, row.spec.task.pair) != ("CORAL", "amazon-dslr")
    ]
    (board,) = leaderboards(SPECS, rows)
    coral = next(line for line in board.entries if line.label == "CORAL svm")
    assert coral.mean is None
    assert coral.values.count(None) == 1
    assert board.best("peer").label != "CORAL svm"
    grid = leaderboard.leaderboard_grid(board)
    text = next(line for line in grid if line[0] == "CORAL svm")
    assert text.count("–") == 2  # the task and the mean
    assert len({len(line) for line in grid}) == 1


def test_sentiment_is_measured_in_balanced_accuracy():
    specs = plan_leaderboard(datasets=["sentiment-snippets"], models=["auto"])
    (board,) = leaderboards(specs, rows_of(specs))
    assert board.best("auto").mean == pytest.approx(60.0)
    assert "balanced accuracy" in board.heading


def test_draws_are_averaged_before_tasks():
    specs = plan_leaderboard("ss", datasets=["off31"], tasks=["amazon-dslr"], draws=2)
    rows = [made_row(s, accuracy=60.0 + 10 * s.task.draw) for s in specs]
    (board,) = leaderboards(specs, rows)
    assert board.best("auto").values == (65.0,)
    (board,) = leaderboards(specs, rows[:2])
    assert board.best("auto") is None  # a draw is missing


def test_labels_are_compared_with_the_same_tasks_without_them():
    tasks = ["amazon-dslr", "dslr-amazon"]
    specs = plan_leaderboard("ss", datasets=["off31"], tasks=tasks)
    found = leaderboards(specs, rows_of(specs))
    assert len(leaderboard.checks(found)) == 1  # nothing to compare with
    without = plan_leaderboard(datasets=["off31"], tasks=tasks, models=["auto"])
    line = leaderboard.checks(found, rows_of(without, amazon_dslr=70.0))[0]
    assert line.startswith("- [x] yes: ")
    assert line.endswith("labelled target rows help on average (75.0 without, 80.0 with)")
    line = leaderboard.checks(found, rows_of(without, amazon_dslr=90.1))[0]
    assert line.startswith("- [ ] no: ")


def test_rows_prepared_otherwise_have_a_board_of_their_own():
    both = [
        *plan_leaderboard(datasets=["amt"], models=["auto"]),
        *plan_leaderboard(datasets=["amt"], models=["auto"], preprocessing="paper"),
    ]
    names = [board.name for board in leaderboards(both, rows_of(both))]
    assert names == ["AMT, US", "AMT, US, paper"]


def test_formats_and_notes():
    found = leaderboards(SPECS, rows_of())
    grid = leaderboard.leaderboard_grid(found[0])
    markdown = markdown_lines(grid)
    assert markdown[1].startswith("| --- | ---: |")
    assert len(markdown) == len(grid) + 1
    assert len(align(grid, rule=True)) == len(grid) + 1
    notes = "\n".join(leaderboard.notes(SPECS))
    for words in ("SqueezeNet", "1000", "seed 0", "hindsight", "off31 paper"):
        assert words in notes


# Collections by halves ----------------------------------------------------------------------------

FOLDS = {"ridge": 70.0, "logistic": 75.0, "forest": 75.0}
SOURCE_FIGURES = {"auto": 80.0, "ridge": 90.0, "logistic": 78.0, "forest": 60.0}


def folded_rows(specs, auto=None, **params):
    """Rows with SOURCE_FIGURES; `auto` maps a task to what auto reaches there."""
    rows = []
    for spec in specs:
        figure = SOURCE_FIGURES[spec.classifier]
        facts = {"expected": 84.0, "ece": 1.0, **params}
        if spec.model == "auto":
            figure = (auto or {}).get(spec.task.pair, figure)
        else:
            facts = {"source_folds": FOLDS[spec.classifier]}
        rows.append(made_row(spec, accuracy=figure, balanced_accuracy=figure - 10, params=facts))
    return rows


def plan(*names, **options):
    return plan_leaderboard(datasets=names, models=["auto", "source-only"], **options)


def line_of(lines, label, half):
    (found,) = (line for line in lines if (line.label, line.half) == (label, half))
    return found


def test_source_folds_choose_and_target_labels_do_not():
    specs = plan("digits", tasks=["blur"])
    chosen = chosen_rows(folded_rows(specs))
    # ridge is best on the target, logistic and forest on the source; the first of the two counts
    assert [row.spec.classifier for row in chosen.values()] == ["logistic"]
    assert chosen_rows(folded_rows(specs)[:-1]) == {}  # the forest is missing


def test_halves_are_apart():
    specs = plan("tables")
    auto = {"Wages union by south →": 10.0, "HI whi by region ←": 76.9}
    development, report = half_lines(specs, folded_rows(specs, auto))
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
    lines = half_lines(specs, folded_rows(specs, {"mushrooms e>t": 60.0}))
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
    lines = half_lines(specs, folded_rows(specs))
    assert "Train Src" not in halves_grid(lines)[0]


def test_seeds_of_a_generated_case_are_in_both_halves():
    specs = plan("generated", tasks=["one row", "moved"], draws=4)
    rows = folded_rows(specs)
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
    rows = folded_rows(specs, expected_low=80.0, expected_high=90.0)  # 80 is on the bound
    for row in rows:
        if row.spec.task.draw == 2 and "expected_low" in row.params:
            row.params["expected_low"] = 80.5
    lines = half_lines(specs, rows)
    assert line_of(lines, "generated shifts moved", "development").held == 50
    assert line_of(lines, "generated shifts moved", "report").held == 100
    grid = halves_grid(lines)
    assert grid[1][grid[0].index("intervals hold")] == "50 %"


def test_a_missing_row_leaves_a_half_without_mean():
    specs = plan("digits")
    rows = folded_rows(specs)
    gone = next(r for r in rows if r.spec.model == "auto" and r.spec.task.half == "report")
    development, report = half_lines(specs, [row for row in rows if row is not gone])
    assert development.auto == 70
    assert (report.auto, report.fallen, report.difference) == (None, None, None)
    assert report.source == 68
    assert half_lines(plan_leaderboard(datasets=["off31"]), []) == ()


def test_overrides_have_lines_of_their_own():
    specs = plan("digits", overrides=[("scoring", "entropy")])
    assert half_lines(specs, folded_rows(specs))[0].label.endswith('all, auto+scoring="entropy"')


def test_the_board_is_compared_with_what_folds_chose():
    specs = plan("skada-bench")
    (board,) = leaderboards(specs, folded_rows(specs, dict.fromkeys(["subspace 0"], 70.0)))
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
    found = leaderboards(
        specs, folded_rows(specs, dict.fromkeys({s.task.pair for s in specs}, 1.0))
    )
    bad = next(line for line in leaderboard.checks(found) if "no harm" in line)
    assert bad.endswith(", and 66 more")
