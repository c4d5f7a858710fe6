"""What the contest is made of."""

from __future__ import annotations

from collections import Counter

import pytest

from marda.experiments.contest import ENTRIES, METHODS, PEERS, plan_contest, role_of
from marda.experiments.plan import BENCHMARKS, PlanError
from marda.experiments.specs import Spec, TaskSpec, Unit, group_units


def test_every_task_of_every_data_set_meets_every_method():
    specs = plan_contest()
    assert len({s.key for s in specs}) == len(specs)
    tasks = {(s.task.benchmark, s.task.pair) for s in specs}
    assert len(tasks) == 12 + 6 + 12 + 12 + 12
    for name in ENTRIES:
        pair = "-".join(BENCHMARKS[name].pairs()[0])
        one = [s for s in specs if (s.task.benchmark, s.task.pair) == (name, pair)]
        assert {s.model for s in one} == set(METHODS)
        roles = Counter(role_of(s) for s in one)
        assert (roles["auto"], roles["source"], roles["peer"]) == (1, 3, 2 * len(PEERS))
        assert roles["fixed"] >= 3
    assert {s.task.preprocessing for s in specs if s.task.benchmark == "amt"} == {"log-tf"}


def test_fixed_rows_are_those_of_the_paper_settings():
    # A store that has them from `--settings paper` need not compute them again.
    task = TaskSpec("oc10", "dslr", "webcam", "US")
    assert Spec(task, "S1D", "ridge", "paper") in plan_contest(benchmarks=["oc10"])


def test_keys_are_stable():
    # Stored rows are found by these strings: changing them orphans every store.
    keys = {s.key for s in plan_contest(benchmarks=["oc10"], tasks=["dslr-webcam"])}
    start = "oc10/paper/dslr-webcam/US/full/draw0/"
    for end in ("auto/auto/auto", "auto/source-only/ridge", "auto/CORAL/svm", "paper/S1M/ridge"):
        assert start + end in keys


def test_semi_supervised_rows_are_drawn_and_have_a_baseline():
    specs = plan_contest("ss", benchmarks=["off31"], tasks=["amazon-dslr"], draws=2)
    assert [(s.model, s.task.setting, s.task.draw) for s in specs] == [
        ("auto", "SS", 0),
        ("source-only", "SS", 0),
        ("auto", "SS", 1),
        ("source-only", "SS", 1),
    ]


def test_narrowing_and_overrides():
    specs = plan_contest(
        benchmarks=["amt"],
        methods=["auto", "OT"],
        classifiers=["auto", "svm"],
        tasks=["books-dvd"],
        preprocessing="paper",
        overrides=[("scoring", "entropy")],
    )
    assert [(s.model, s.classifier, s.variant) for s in specs] == [
        ("auto", "auto", 'auto+scoring="entropy"'),
        ("OT", "svm", "auto"),
    ]
    assert {s.task.preprocessing for s in specs} == {"paper"}
    units = group_units(specs)
    assert len(units) == 2
    assert Unit.from_json(units[0].to_json()) == units[0]


def test_missing_domains_are_left_out():
    specs = plan_contest(benchmarks=["oc10"], present={"oc10": ("dslr", "webcam")})
    assert {s.task.pair for s in specs} == {"dslr-webcam", "webcam-dslr"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"table": "sup"}, "knows the tables us and ss, got 'sup'"),
        ({"benchmarks": ["mnist"]}, "unknown data set 'mnist': choose from oc10"),
        ({"methods": ["J12"]}, "unknown method 'J12': choose from auto"),
        ({"classifiers": ["nn"]}, "unknown classifier 'nn'"),
        ({"preprocessing": "x"}, "unknown preprocessing 'x'"),
        ({"tasks": ["a-b"]}, "unknown task 'a-b'"),
        ({"benchmarks": ["amt"], "methods": ["OT"], "classifiers": ["auto"]}, "nothing to run"),
    ],
)
def test_wrong_requests(arguments, words):
    with pytest.raises(PlanError, match=words):
        plan_contest(**arguments)
