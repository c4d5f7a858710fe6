"""Boards from made rows: means, goals, harm, and what is not there."""

from __future__ import annotations

import pytest

from marda.experiments import standings
from marda.experiments.contest import plan_contest
from marda.experiments.standings import boards

from .fakes import made_row

SPECS = plan_contest(benchmarks=["off31"])
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
    (board,) = boards(SPECS, rows_of(amazon_dslr=74.0))
    assert len(board.pairs) == 6
    assert board.whole
    auto = board.line("auto")
    assert auto.mean == pytest.approx((5 * 80 + 74) / 6)
    assert auto.fit_seconds == 0.5
    assert board.line("fixed").label == "S1M ridge"
    assert board.line("peer").label == "CORAL svm"
    labels = [line.label for line in board.lines]
    assert "S1M ridge (scaling balanced)" in labels
    assert len(labels) == len(set(labels))


def test_the_summary_names_the_best_of_each_kind():
    found = boards(SPECS, rows_of())
    header, line = standings.summary_grid(found)
    told = dict(zip(header, line, strict=True))
    assert told["auto"] == "80.0"
    assert told["ECE"] == "4.0"
    assert told["goal"] == "75.0"
    assert told["best fixed"] == "75.0 (S1M ridge)"
    assert told["best alternative"] == "72.0 (CORAL svm)"
    assert told["worst − source"].startswith("+10.0")


def test_members_in_hindsight_and_the_guess():
    rows = rows_of()
    for row in rows:
        if row.spec.model == "auto":
            row.params.update(best_member_accuracy=81.6, expected=74.0)
    found = boards(SPECS, rows)
    told = dict(zip(*standings.summary_grid(found), strict=True))
    assert told["best member"] == "81.6"
    assert told["guess off by"] == "6.0"
    assert any(
        line.startswith("- [ ] no") and line.endswith("hindsight (80.0 against 81.6)")
        for line in standings.checks(found)
    )


def test_goals_and_harm():
    good = standings.checks(boards(SPECS, rows_of(amazon_dslr=69.0)))
    assert [line[:9] for line in good] == ["- [x] yes", "- [x] yes"]
    bad = standings.checks(boards(SPECS, rows_of(amazon_dslr=68.9, dslr_webcam=10.0)))
    assert bad[0] == "- [ ] no: OFF31 (SqueezeNet features), US: auto 66.5, goal 75.0"
    assert bad[1].startswith("- [ ] no: ")
    assert bad[1].endswith(": dslr-webcam -60.0, amazon-dslr -1.1")


def test_a_missing_row_leaves_no_mean():
    rows = [
        row for row in rows_of() if (row.spec.model, row.spec.task.pair) != ("CORAL", "amazon-dslr")
    ]
    (board,) = boards(SPECS, rows)
    coral = next(line for line in board.lines if line.label == "CORAL svm")
    assert coral.mean is None
    assert coral.values.count(None) == 1
    assert board.line("peer").label != "CORAL svm"
    grid = standings.board_grid(board)
    text = next(line for line in grid if line[0] == "CORAL svm")
    assert text.count("–") == 2  # the task and the mean
    assert len({len(line) for line in grid}) == 1


def test_some_tasks_have_no_goal():
    specs = plan_contest(benchmarks=["off31"], tasks=["amazon-dslr"])
    found = boards(specs, rows_of(specs))
    assert dict(zip(*standings.summary_grid(found), strict=True))["goal"] == "–"
    assert len(standings.checks(found)) == 1


def test_sentiment_is_measured_in_balanced_accuracy():
    specs = plan_contest(benchmarks=["sentiment-snippets"], methods=["auto"])
    (board,) = boards(specs, rows_of(specs))
    assert board.line("auto").mean == pytest.approx(60.0)
    assert "balanced accuracy" in board.heading


def test_draws_are_averaged_before_tasks():
    specs = plan_contest("ss", benchmarks=["off31"], tasks=["amazon-dslr"], draws=2)
    rows = [made_row(s, accuracy=60.0 + 10 * s.task.draw) for s in specs]
    (board,) = boards(specs, rows)
    assert board.line("auto").values == (65.0,)
    (board,) = boards(specs, rows[:2])
    assert board.line("auto") is None  # a draw is missing


def test_labels_are_compared_with_the_same_tasks_without_them():
    tasks = ["amazon-dslr", "dslr-amazon"]
    specs = plan_contest("ss", benchmarks=["off31"], tasks=tasks)
    found = boards(specs, rows_of(specs))
    assert len(standings.checks(found)) == 1  # nothing to compare with
    without = plan_contest(benchmarks=["off31"], tasks=tasks, methods=["auto"])
    line = standings.checks(found, rows_of(without, amazon_dslr=70.0))[0]
    assert line.startswith("- [x] yes: ")
    assert line.endswith("labelled target rows help on average (75.0 without, 80.0 with)")
    line = standings.checks(found, rows_of(without, amazon_dslr=90.1))[0]
    assert line.startswith("- [ ] no: ")


def test_rows_prepared_otherwise_have_a_board_of_their_own():
    both = [
        *plan_contest(benchmarks=["amt"], methods=["auto"]),
        *plan_contest(benchmarks=["amt"], methods=["auto"], preprocessing="paper"),
    ]
    names = [board.name for board in boards(both, rows_of(both))]
    assert names == ["AMT, US", "AMT, US, paper"]


def test_formats_and_notes():
    found = boards(SPECS, rows_of())
    grid = standings.board_grid(found[0])
    markdown = standings.to_markdown(grid)
    assert markdown[1].startswith("| --- | ---: |")
    assert len(markdown) == len(grid) + 1
    assert len(standings.to_plain(grid)) == len(grid) + 1
    notes = "\n".join(standings.notes(SPECS))
    for words in ("SqueezeNet", "1000", "seed 0", "hindsight", "off31 paper"):
        assert words in notes
