import json
from collections import Counter

import pytest

from marda.benchmarks.plan import (
    ADAPTERS,
    BENCHMARKS,
    EVALUATIONS,
    LABELLED_SYSTEMS,
    LEADERBOARD,
    METHODS,
    MODELS,
    MODELS_US,
    SYSTEMS,
    PlanError,
    Request,
    Spec,
    TaskSpec,
    Unit,
    belongs,
    everything,
    group_units,
    on_leaderboards,
    role_of,
    seen_rows,
    table_names,
)

from .fakes import plan_leaderboard, plan_table


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
    planned = plan_table("us", datasets=["oc10", "amt"])
    assert len(planned) == 24 * 8 * 3
    assert tuple(dict.fromkeys(s.model for s in planned)) == MODELS_US


def test_off31_table_is_made_of_rows_of_the_us_table():
    assert {s.key for s in plan_table("off31")} < {s.key for s in plan_table("us")}


def test_narrowing():
    planned = plan_table(
        "sup",
        datasets=["amt"],
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
    assert plan_table("surf", datasets=["amt"]) == ()
    assert {s.task.protocol for s in plan_table("surf")} == {"sampled"}
    assert plan_table("us", datasets=["oc10-surf"])[0].task.protocol == "full"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"datasets": ["mnist"]}, "unknown data set 'mnist': choose from oc10"),
        ({"models": ["S3"]}, "unknown model 'S3': choose from BL"),
        ({"classifiers": ["svm"]}, "unknown classifier 'svm'"),
        ({"tasks": ["a-b"]}, "unknown task 'a-b': choose from amazon-caltech"),
        ({"draws": 0}, "draws must be at least 1, got 0"),
        ({"unlabelled": "all"}, "unknown choice of unlabelled rows 'all': choose from train"),
    ],
)
def test_wrong_names(arguments, words):
    with pytest.raises(PlanError, match=words):
        plan_table("us", **arguments)


@pytest.mark.parametrize(("seen", "protocol"), [("test", "full-test"), ("both", "full-both")])
def test_unlabelled_rows_are_a_protocol_where_there_is_a_split(seen, protocol):
    planned = plan_table("us", unlabelled=seen)
    assert {s.task.protocol for s in planned if s.task.benchmark == "amt"} == {protocol}
    assert {s.task.protocol for s in planned if s.task.benchmark != "amt"} == {"full"}
    assert seen_rows(planned) == seen
    assert all(belongs(s, "us") and not belongs(s, "surf") for s in planned)
    assert plan_table("us", unlabelled="train") == plan_table("us")
    assert {s.task.protocol for s in plan_table("surf", unlabelled=seen)} == {"sampled"}


def test_the_leaderboard_has_one_protocol():
    with pytest.raises(PlanError, match="leave it out with --settings auto"):
        Request(settings="auto", unlabelled="test").specs()


def test_readings_of_the_ridge_are_run_only_if_named():
    assert {s.classifier for s in plan_table("us")} == {"nn", "dscm", "ridge"}
    assert {s.classifier for s in plan_table("us", classifiers=["ridge10"])} == {"ridge10"}


def test_table_names():
    assert table_names("all") == ("us", "sup", "ss", "off31", "surf")
    assert table_names("ss") == ("ss",)
    with pytest.raises(PlanError, match="unknown table"):
        table_names("6")


def test_keys_are_stable():
    # Stored rows are found by these strings: changing them orphans every store.
    spec = Spec(TaskSpec("amt", "books", "dvd", "SS", draw=3), "S1D", "ridge")
    assert spec.key == "amt/paper/books-dvd/SS/full/draw3/paper/S1D/ridge"
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


# The leaderboard ----------------------------------------------------------------------------------


def test_every_task_of_every_data_set_meets_every_method():
    specs = plan_leaderboard()
    assert len({s.key for s in specs}) == len(specs)
    tasks = {(s.task.benchmark, s.task.pair) for s in specs}
    assert len(tasks) == 12 + 6 + 12 + 12 + 12
    for name in LEADERBOARD:
        pair = "-".join(BENCHMARKS[name].pairs()[0])
        one = [s for s in specs if (s.task.benchmark, s.task.pair) == (name, pair)]
        heavy = set(SYSTEMS) - set(EVALUATIONS[one[0].task.benchmark].systems)
        left_out = heavy if EVALUATIONS[name].fixed else heavy | {"S1", "S1M", "S1D"}
        assert {s.model for s in one} == set(METHODS) - set(LABELLED_SYSTEMS) - left_out
        roles = Counter(role_of(s) for s in one)
        assert (roles["auto"], roles["source"], roles["peer"]) == (
            1,
            3,
            2 * len(ADAPTERS) + len(SYSTEMS) - len(heavy),
        )
        assert roles["fixed"] >= 3 * bool(EVALUATIONS[name].fixed)
    assert {s.task.preprocessing for s in specs if s.task.benchmark == "amt"} == {"log-tf"}


def test_fixed_rows_are_those_of_the_paper_settings():
    # A store that has them from `--settings paper` need not compute them again.
    task = TaskSpec("oc10", "dslr", "webcam", "US")
    assert Spec(task, "S1D", "ridge", "paper") in plan_leaderboard(datasets=["oc10"])


def test_stored_rows_of_a_leaderboard_are_those_that_were_planned():
    planned = plan_leaderboard(datasets=["amt", "off31"])
    other = plan_table("us", datasets=["off31", "oc10"], models=["S1", "J12"])
    kept = on_leaderboards(dict.fromkeys((*other, *planned)))
    assert set(kept) == set(planned)
    assert on_leaderboards(other) == ()


def test_keys_of_the_leaderboard_are_stable():
    # Stored rows are found by these strings: changing them orphans every store.
    keys = {s.key for s in plan_leaderboard(datasets=["oc10"], tasks=["dslr-webcam"])}
    start = "oc10/paper/dslr-webcam/US/full/draw0/"
    for end in ("auto/auto/auto", "auto/source-only/ridge", "auto/CORAL/svm", "paper/S1M/ridge"):
        assert start + end in keys


def test_semi_supervised_rows_are_drawn_and_have_a_baseline():
    specs = plan_leaderboard("ss", datasets=["off31"], tasks=["amazon-dslr"], draws=2)
    assert [(s.model, s.task.setting, s.task.draw) for s in specs] == [
        ("auto", "SS", 0),
        ("source-only", "SS", 0),
        ("MMDT", "SS", 0),
        ("auto", "SS", 1),
        ("source-only", "SS", 1),
        ("MMDT", "SS", 1),
    ]


def test_narrowing_and_overrides_of_the_leaderboard():
    specs = plan_leaderboard(
        datasets=["amt"],
        models=["auto", "OT"],
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


def test_missing_domains_are_left_out_of_the_leaderboard():
    specs = plan_leaderboard(datasets=["oc10"], present={"oc10": ("dslr", "webcam")})
    assert {s.task.pair for s in specs} == {"dslr-webcam", "webcam-dslr"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"table": "sup"}, "knows the tables us and ss, got 'sup'"),
        ({"datasets": ["mnist"]}, "unknown data set 'mnist': choose from oc10"),
        ({"models": ["J12"]}, "unknown method 'J12': choose from auto"),
        ({"classifiers": ["nn"]}, "unknown classifier 'nn'"),
        ({"preprocessing": "x"}, "unknown preprocessing 'x'"),
        ({"tasks": ["a-b"]}, "unknown task 'a-b'"),
        ({"datasets": ["amt"], "models": ["OT"], "classifiers": ["auto"]}, "nothing to run"),
    ],
)
def test_wrong_requests_of_the_leaderboard(arguments, words):
    with pytest.raises(PlanError, match=words):
        plan_leaderboard(**arguments)


# Collections of tasks -----------------------------------------------------------------------------


def test_collections_have_draws_of_their_own_and_source_only_models():
    specs = plan_leaderboard(datasets=["skada-bench", "generated", "digits", "tables"], draws=20)
    tasks = Counter(s.task.benchmark for s in specs if s.model == "auto")
    assert tasks == {"skada-bench": 24 * 5, "generated": 24 * 20, "digits": 9, "tables": 72}
    more = [s for s in specs if s.model not in ("auto", "source-only")]
    assert {s.task.benchmark for s in more} == {"skada-bench"}
    assert len(more) == 120 * (
        2 * len(ADAPTERS) + len(SYSTEMS)
    )  # adapters have two classifiers each
    assert len({s.key for s in specs}) == len(specs) == 4 * sum(tasks.values()) + len(more)
    one = [s for s in specs if s.task == specs[0].task]
    assert [s.classifier for s in one][:4] == ["auto", "ridge", "logistic", "forest"]
    assert one[0].key == "skada-bench/paper/mushrooms e>t/US/full/draw0/auto/auto/auto"
    assert Unit.from_json(group_units(one)[0].to_json()).specs == tuple(one)
    few = plan_leaderboard(datasets=["skada-bench"], tasks=["phishing -1>1"], draws=2)
    assert {s.task.draw for s in few} == {0, 1}


def test_collections_are_run_by_name_only():
    assert {s.task.benchmark for s in plan_leaderboard()} == set(LEADERBOARD)
    assert not set(LEADERBOARD) & {"skada-bench", "generated", "digits", "tables"}
    with pytest.raises(PlanError, match="unknown data set 'tables'"):
        plan_table("us", datasets=["tables"])
    with pytest.raises(PlanError, match="generated has no labelled target rows"):
        plan_leaderboard("ss", datasets=["generated"])


def test_tasks_that_are_not_there_are_left_out():
    specs = plan_leaderboard(datasets=["skada-bench"], present={"skada-bench": ("subspace 0",)})
    assert {s.task.pair for s in specs} == {"subspace 0"}


DEVELOPMENT = {
    "skada-bench": "concept_drift subspace",
    "digits": "background move same",
    "tables": "Benefits Computers DoctorAUS HI Hdma Mroz OFP Schooling Star Tobacco Treatment "
    "rwm5yr std wine",
}


def test_the_development_half_is_written_down():
    # Constants of rules are settled on these and on even seeds of generated cases, on no others.
    specs = plan_leaderboard(datasets=[*DEVELOPMENT, "generated"], models=["auto"], draws=20)
    for name, families in DEVELOPMENT.items():
        mine = [s.task for s in specs if s.task.benchmark == name]
        assert {t.family for t in mine if t.half == "development"} == set(families.split())
    for task in (s.task for s in specs if s.task.benchmark == "generated"):
        assert task.half == ("report" if task.draw % 2 else "development")


def test_rows_of_one_table_are_never_in_both_halves():
    halves = {}
    for spec in plan_leaderboard(datasets=["skada-bench", "tables"], draws=5):
        first = spec.task.benchmark, spec.task.pair.split()[0]
        assert halves.setdefault(first, spec.task.half) == spec.task.half


def test_everything_has_every_data_set_table_and_system():
    requests = everything(1)
    specs = [spec for request in requests for spec in request.specs()]
    assert {s.task.benchmark for s in specs} == set(BENCHMARKS) - {"off31-decaf6"}
    assert {s.task.setting for s in specs} == {"US", "SUP", "SS"}
    assert {s.task.protocol for s in specs} == {"full", "full-test", "sampled"}
    assert {s.model for s in specs} == set(MODELS) | set(METHODS)
    surf = {(s.task.preprocessing, s.variant) for s in specs if s.task.protocol == "sampled"}
    assert surf == {("paper", "paper"), ("no-l2", "paper"), ("no-l2", "paper+normalize=true")}
