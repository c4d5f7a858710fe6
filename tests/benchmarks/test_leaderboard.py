"""Leaderboards from made rows: means, harm, and what is not there."""

from __future__ import annotations

import pytest

from marda.benchmarks import leaderboard
from marda.benchmarks.leaderboard import leaderboards
from marda.benchmarks.plan import plan_leaderboard
from marda.benchmarks.render import align, markdown_lines

from .fakes import made_row

SPECS = plan_leaderboard(benchmarks=["off31"])
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
    specs = plan_leaderboard(benchmarks=["sentiment-snippets"], methods=["auto"])
    (board,) = leaderboards(specs, rows_of(specs))
    assert board.best("auto").mean == pytest.approx(60.0)
    assert "balanced accuracy" in board.heading


def test_draws_are_averaged_before_tasks():
    specs = plan_leaderboard("ss", benchmarks=["off31"], tasks=["amazon-dslr"], draws=2)
    rows = [made_row(s, accuracy=60.0 + 10 * s.task.draw) for s in specs]
    (board,) = leaderboards(specs, rows)
    assert board.best("auto").values == (65.0,)
    (board,) = leaderboards(specs, rows[:2])
    assert board.best("auto") is None  # a draw is missing


def test_labels_are_compared_with_the_same_tasks_without_them():
    tasks = ["amazon-dslr", "dslr-amazon"]
    specs = plan_leaderboard("ss", benchmarks=["off31"], tasks=tasks)
    found = leaderboards(specs, rows_of(specs))
    assert len(leaderboard.checks(found)) == 1  # nothing to compare with
    without = plan_leaderboard(benchmarks=["off31"], tasks=tasks, methods=["auto"])
    line = leaderboard.checks(found, rows_of(without, amazon_dslr=70.0))[0]
    assert line.startswith("- [x] yes: ")
    assert line.endswith("labelled target rows help on average (75.0 without, 80.0 with)")
    line = leaderboard.checks(found, rows_of(without, amazon_dslr=90.1))[0]
    assert line.startswith("- [ ] no: ")


def test_rows_prepared_otherwise_have_a_board_of_their_own():
    both = [
        *plan_leaderboard(benchmarks=["amt"], methods=["auto"]),
        *plan_leaderboard(benchmarks=["amt"], methods=["auto"], preprocessing="paper"),
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
