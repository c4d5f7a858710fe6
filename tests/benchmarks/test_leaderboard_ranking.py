"""Ranks of systems, and what is beyond chance, from made boards."""

from __future__ import annotations

import numpy as np
import pytest

from marda.benchmarks.leaderboard import leaderboards, mean_ranks, rank_systems, ranking_grid

from .fakes import made_row, plan_leaderboard

METHODS = ("auto", "source-only", "JDA", "GFK")
LEVEL = {"auto": 80.0, "source-only": 70.0, "JDA": 79.5, "GFK": 60.0}


def boards(*names, without=(), **changes):
    specs = plan_leaderboard(datasets=names, models=METHODS, classifiers=["auto", "ridge", "own"])
    rng = np.random.default_rng(0)
    rows = []
    for spec in specs:
        if (spec.task.benchmark, spec.model) in without:
            continue
        figure = {**LEVEL, **changes}[spec.model] + rng.uniform(-0.1, 0.1)
        rows.append(made_row(spec, accuracy=figure, balanced_accuracy=figure, n_test=400))
    return leaderboards(specs, rows)


def test_systems_are_ranked_over_all_tasks():
    found = rank_systems(boards("oc10", "off31"))
    assert [one.label for one in found.systems] == ["auto", "JDA", "source-only ridge", "GFK"]
    assert [one.rank.value for one in found.systems] == [1, 2, 3, 4]
    assert found.n_tasks == 18
    auto, near, base, far = found.systems
    assert (auto.gain, auto.p) == (None, None)
    assert near.gain.low > 0.3
    assert (near.ahead, near.behind) == (0, 0)  # half a point of 400 rows is chance
    assert (base.ahead, far.ahead) == (18, 18)
    assert far.p == pytest.approx(3 * 2 / 2**18)  # all of 18 tasks on one side, three tests
    assert auto.rank.high - auto.rank.low == pytest.approx(found.critical)
    assert found.data == ("OC10 (SqueezeNet features), US", "OFF31 (SqueezeNet features), US")


def test_who_is_ahead_of_auto_is_told():
    found = rank_systems(boards("oc10", JDA=90.0))
    first, auto = found.systems[:2]
    assert (first.label, auto.label) == ("JDA", "auto")
    assert (first.ahead, first.behind) == (0, 12)
    assert first.gain.high < -9
    line = ranking_grid(found)[1]
    assert line[0] == "JDA"
    assert line[2].startswith("−10.0 [−10.")


def test_a_data_set_with_few_systems_is_shown_and_not_ranked():
    lacking = {("amt", name) for name in ("source-only", "JDA", "GFK")}
    found = rank_systems(boards("oc10", "amt", without=lacking))
    assert found.ranked == (True, False)
    assert found.n_tasks == 12
    grid = ranking_grid(found)
    assert grid[0][-1] == "AMT, US (not ranked)"
    assert [line[-1] for line in grid[1:]][1:] == ["–", "–", "–"]


def test_a_system_that_lacks_a_data_set_is_compared_where_it_ran():
    found = rank_systems(boards("oc10", "off31", without={("off31", "JDA")}))
    assert [one.label for one in found.systems] == ["auto", "source-only ridge", "GFK", "JDA"]
    assert [one.rank is None for one in found.systems] == [False, False, False, True]
    lacking = found.systems[-1]
    assert lacking.gain.value == pytest.approx(0.5, abs=0.1)
    assert lacking.means[1] is None
    assert lacking.p == pytest.approx(2 / 2**12)  # twelve tasks on one side, one test
    assert [ranking_grid(found)[-1][i] for i in (0, 1, -1)] == ["JDA", "–", "–"]


def test_a_system_that_lacks_a_task_is_left_out():
    (board,) = boards("oc10", without={("oc10", "GFK")})
    found = rank_systems([board])
    assert "GFK" not in [one.label for one in found.systems]
    assert rank_systems([]) is None
    few = {("oc10", "GFK"), ("oc10", "JDA")}
    assert rank_systems(boards("oc10", without=few)) is None


def test_mean_ranks_and_the_critical_difference_are_demsars():
    table = np.array([[3.0, 3.0, 1.0], [2.0, 3.0, 2.0], [1.0, 1.0, 3.0]])
    ranks, _ = mean_ranks(table)
    np.testing.assert_allclose(ranks, [(1 + 1.5 + 3) / 3, (2 + 1.5 + 2) / 3, (3 + 3 + 1) / 3])
    # Demšar 2006, 3.2.2: four classifiers on 14 data sets, q = 2.569, CD = 1.25.
    assert mean_ranks(np.zeros((4, 14)))[1] == pytest.approx(1.25, abs=0.005)
