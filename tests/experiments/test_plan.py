import json

import pytest

from marda.experiments.plan import (
    MODELS_US,
    PlanError,
    plan_table,
    table_names,
)
from marda.experiments.specs import Spec, TaskSpec, Unit, group_units, spec_hash


@pytest.mark.parametrize(
    ("table", "specs", "units"),
    [
        ("us", 30 * 8 * 3, 30),
        ("sup", 30 * 20 * 10 * 3, 30 * 20),
        ("ss", 30 * 20 * 10 * 3, 30 * 20),
        ("off31", 6 * 8 * 3, 6),
        ("surf", 12 * 20 * 10 * 3, 12 * 20),
    ],
)
def test_number_of_runs(table, specs, units):
    planned = plan_table(table)
    assert len(planned) == len({s.key for s in planned}) == specs
    assert len(group_units(planned)) == units


def test_the_run_of_the_time_limit():
    planned = plan_table("us", benchmarks=["oc10", "amt"])
    assert len(planned) == 24 * 8 * 3
    assert tuple(dict.fromkeys(s.model for s in planned)) == MODELS_US


def test_off31_table_is_made_of_rows_of_the_us_table():
    assert {s.key for s in plan_table("off31")} < {s.key for s in plan_table("us")}


def test_narrowing():
    planned = plan_table(
        "sup",
        benchmarks=["amt"],
        models=["S1C", "BL"],
        classifiers=["ridge"],
        tasks=["books-dvd"],
        draws=2,
        settings="marda",
    )
    assert [(s.model, s.task.draw) for s in planned] == [
        ("BL", 0),
        ("S1C", 0),
        ("BL", 1),
        ("S1C", 1),
    ]
    assert all(s.settings == "marda" for s in planned)


def test_us_has_no_class_term_and_one_draw():
    assert plan_table("us", models=["S1C"]) == ()
    assert {s.task.draw for s in plan_table("us", draws=5)} == {0}


def test_tables_tied_to_their_data():
    assert plan_table("surf", benchmarks=["amt"]) == ()
    assert {s.task.protocol for s in plan_table("surf")} == {"sampled"}
    assert plan_table("us", benchmarks=["oc10-surf"])[0].task.protocol == "full"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"benchmarks": ["mnist"]}, "unknown data set 'mnist': choose from oc10"),
        ({"models": ["S3"]}, "unknown model 'S3': choose from BL"),
        ({"classifiers": ["svm"]}, "unknown classifier 'svm'"),
        ({"tasks": ["a-b"]}, "unknown task 'a-b': choose from amazon-caltech"),
        ({"draws": 0}, "draws must be at least 1, got 0"),
    ],
)
def test_wrong_names(arguments, words):
    with pytest.raises(PlanError, match=words):
        plan_table("us", **arguments)


def test_table_names():
    assert table_names("all") == ("us", "sup", "ss", "off31", "surf")
    assert table_names("ss") == ("ss",)
    with pytest.raises(PlanError, match="unknown table"):
        table_names("6")


def test_keys_are_stable():
    # Stored rows are found by these strings: changing them orphans every store.
    spec = Spec(TaskSpec("amt", "books", "dvd", "SS", draw=3), "S1D", "ridge")
    assert spec.key == "amt/paper/books-dvd/SS/full/draw3/paper/S1D/ridge"
    assert spec_hash(spec) == "e4000cc37c98aa4d"
    changed = Spec(spec.task, "S1D", "ridge", "paper", (("ridge_class", 10),))
    assert changed.key == "amt/paper/books-dvd/SS/full/draw3/paper+ridge_class=10/S1D/ridge"


def test_unit_survives_json_and_keeps_its_key_when_shortened():
    unit = group_units(plan_table("us", overrides=[("noise", 0.9), ("fit_intercept", False)]))[0]
    assert Unit.from_json(unit.to_json()) == unit
    assert json.loads(unit.to_json())[0]["overrides"] == [["fit_intercept", False], ["noise", 0.9]]
    assert unit.without([unit.specs[0].key]).key == unit.key
    assert len(unit.without([unit.specs[0].key]).specs) == len(unit.specs) - 1


def test_variants_do_not_share_a_unit():
    specs = plan_table("us", tasks=["books-dvd"]) + plan_table(
        "us", tasks=["books-dvd"], settings="marda"
    )
    assert len(group_units(specs)) == 2
    assert len(group_units(specs + specs)) == 2
