"""The default explains the shift, and does what it asks for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from marda import MDAClassifierCV, load, pack
from marda._order import row_order
from marda._validation import seed_of
from marda.criteria import expected_calibration_error
from marda.diagnostics.diagnosis import _action
from marda.selection import auto
from marda.selection.labelling import choose_rows
from marda.selection.source_only import fit_source_only
from selection.test_adapted_ensemble import gaussian, sensors
from shift.drawn import classes, pair

pytestmark = pytest.mark.usefixtures("few_draws")


def fitted(Xs, ys, Xt, yt=None, **options):
    X, y, domain = pack(Xs, ys, Xt, yt)
    return MDAClassifierCV(random_state=0, **options).fit(X, y, sample_domain=domain)


def mixed(seed, n=200):
    """A table with a chequered class; half of the target is drawn together, the other moved away.

    No explanation undoes it, since it is no map of rows.
    """
    rng = np.random.default_rng(seed)
    Xs, Xt = rng.normal(size=(n, 4)), rng.normal(size=(n, 4))
    ys = (Xs[:, 0] * Xs[:, 1] > 0).astype(int)
    return Xs, ys, np.where(np.arange(n)[:, None] % 2, 0.2 * Xt + 2, Xt - 1)


def turned(seed, n=300):
    """The first two columns turned by 60 degrees."""
    Xs, ys, Xt = pair(seed, n, d=3)
    turn = np.deg2rad(60)
    Xs[:, 1] *= 0.3
    Xt[:, 1] *= 0.3
    Xt[:, :2] @= np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    return Xs, ys, Xt


def words(seed, n=80, n_words=600):
    """Counts of words; half of them mean the other class in the target."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.05), size=2)
    others = rng.dirichlet(np.full(n_words, 0.05), size=2)
    y = np.arange(n) % 2
    Xs, Xt = (
        np.vstack([rng.multinomial(40, t[c]) for c in y]).astype(float)
        for t in (topics, (topics + others) / 2)
    )
    return sp.csr_array(Xs), y, sp.csr_array(Xt)


PROBLEMS = {
    "none": lambda: pair(1, 200),
    "class shares": lambda: pair(0, 300, after=0.9),
    "moved columns": lambda: pair(0, 300, factor=1.5, by=1.0),
    "class shares and moved columns": lambda: pair(0, 300, after=0.9, factor=1.5, by=2.0),
    "linear map": lambda: turned(0),
    "several": lambda: pair(2, 60, after=0.85),
    "mixed": lambda: mixed(0),
    "words": lambda: words(0),
    "too few rows": lambda: pair(0, 100, n_target=5),
    "one target row": lambda: pair(0, 100, n_target=1),
    "constant target": lambda: (*pair(0, 100)[:2], np.ones((50, 4))),
    "outliers": lambda: with_outliers(*pair(0, 300, after=0.9)),
}


def with_outliers(Xs, ys, Xt):
    Xs, Xt = Xs.copy(), Xt.copy()
    Xs[0], Xt[0], Xt[1, 2] = 1e6, -1e8, 1e12
    return Xs, ys, Xt


@pytest.fixture(scope="module")
def default():
    """The default model of each problem, fitted once."""
    known = {}

    def get(name):
        if name not in known:
            known[name] = fitted(*PROBLEMS[name]())
        return known[name]

    return get


def chosen_model(name):
    """The source-only model of a problem, by hand: rows in the order in which a fit sees them."""
    X, y, domain = pack(*PROBLEMS[name]())
    order = row_order(X, domain, y)
    ours = order[domain[order] > 0]
    return fit_source_only(
        X[ours], y[ours], 2, class_weight="balanced", seed=seed_of(0)
    ).chosen.model


def unexplained(monkeypatch):
    """From here on no explanation fits."""
    explain = auto.explain_shift

    def explain_shift(*rows, **options):
        return replace(explain(*rows, **options), kind="unexplained", fitting=(), left=1.0)

    monkeypatch.setattr(auto, "explain_shift", explain_shift)


# What is done -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["none", "too few rows", "one target row", "constant target"])
def test_the_source_model_as_it_is_where_nothing_is_known_to_differ(name, default):
    Xt = PROBLEMS[name]()[2]
    model = default(name)
    assert model.shift_.kind == ("none" if name == "none" else "too few rows")
    chosen = chosen_model(name)
    (member,) = model.members_
    assert member.name == f"source only, {chosen.kind}"
    assert (member.inputs.kind, member.weight, member.spread) == ("raw", 1.0, 1.0)
    np.testing.assert_allclose(model.predict_proba(Xt), np.exp(chosen.scores(Xt)), atol=1e-10)
    assert model.best_params_ == chosen.get_params() | {
        "sharpness": pytest.approx(chosen.sharpness)
    }


def test_other_class_shares_correct_the_prior(default):
    Xt = PROBLEMS["class shares"]()[2]
    model = default("class shares")
    assert model.shift_.fitting == ("class shares",)
    (member,) = model.members_
    assert member.inputs.kind == "raw"
    shares = model.shift_.prior.target
    assert shares[1] == pytest.approx(0.9, abs=3 * model.shift_.prior.standard_error[1])
    chosen = chosen_model("class shares")
    by_hand = chosen.with_prior(shares)
    np.testing.assert_allclose(model.predict_proba(Xt), np.exp(by_hand.scores(Xt)), atol=1e-10)
    assert np.mean(model.predict(Xt) == 1) > np.mean(chosen.scores(Xt).argmax(1) == 1)


@pytest.mark.parametrize("seed", range(3))
def test_other_class_shares_are_not_taken_for_a_move(seed):
    """Centring would cut the target's large class in two: 64 % right instead of 99 %."""
    Xs, ys = gaussian(seed, 300, gap=2.5)
    Xt, yt = gaussian(seed + 10, 300, share=0.95, gap=2.5)
    model = fitted(Xs, ys, Xt)
    assert model.score(Xt, yt) > 0.97
    assert np.mean(model.predict(Xt) == 1) == pytest.approx(0.95, abs=0.03)


def test_moved_columns_are_moved_back(default):
    Xt = PROBLEMS["moved columns"]()[2]
    model = default("moved columns")
    assert model.shift_.fitting == ("moved columns",)
    explanation = model.shift_.explanation("moved columns")
    (member,) = model.members_
    assert member.inputs.kind == "aligned"
    np.testing.assert_allclose(member.inputs.apply(Xt), explanation.undo(Xt))
    np.testing.assert_allclose(explanation.factor, 1 / 1.5, rtol=0.15)
    chosen = chosen_model("moved columns")
    by_hand = np.exp(chosen.scores(explanation.undo(Xt)))
    np.testing.assert_allclose(model.predict_proba(Xt), by_hand, atol=1e-10)
    # As good as on rows that did not move.
    there = classes(2000, 4, 0.5, np.random.default_rng(5))
    moved = model.score(1.5 * there[0] + 1.0, there[1])
    assert moved > np.mean(chosen.scores(there[0]).argmax(1) == there[1]) - 0.02


@pytest.mark.parametrize("seed", range(2))
def test_it_helps_where_instruments_differ(seed):
    Xs, ys, Xt, yt = sensors(seed)
    model = fitted(Xs, ys, Xt)
    chosen = fit_source_only(Xs, ys, 4, class_weight="balanced", seed=seed_of(0)).chosen.model
    assert model.score(Xt, yt) > np.mean(chosen.scores(Xt).argmax(1) == yt) + 0.05
    low, high = model.calibration_["expected_interval"]
    assert low < model.score(Xt, yt) < high


@pytest.mark.parametrize("explanation", sorted(auto.FLEXIBLE))
def test_explanations_that_fit_too_much_are_told_but_not_acted_on(
    explanation, default, monkeypatch
):
    """They may take classes for each other: predictions are those where nothing fits."""
    Xs, ys, Xt = PROBLEMS[explanation]()
    model = default(explanation)
    assert model.shift_.fitting == (explanation,)
    assert model.shift_.sentence().startswith("The target looks like the source ")
    if "class shares" in explanation:  # columns alone are not moved back where shares differ, too
        assert all(member.inputs.kind != "aligned" for member in model.members_)
        monkeypatch.setattr(auto, "LITTLE", 0.0)
    unexplained(monkeypatch)
    other = fitted(Xs, ys, Xt)
    assert [m.name for m in other.members_] == [m.name for m in model.members_]
    np.testing.assert_allclose(other.predict_proba(Xt), model.predict_proba(Xt), atol=1e-10)


def test_explanations_that_fit_share_the_weight(default):
    Xt = PROBLEMS["several"]()[2]
    model = default("several")
    assert model.shift_.kind == "several"
    shares, moved = model.members_
    assert [m.name.split(", ")[-1] for m in model.members_] == ["class shares", "moved columns"]
    assert [m.inputs.kind for m in model.members_] == ["raw", "aligned"]
    weights = [model.shift_.explanation(name).weight for name in model.shift_.fitting]
    assert shares.weight + moved.weight == pytest.approx(1)
    assert shares.weight / moved.weight == pytest.approx(weights[0] / weights[1])
    # The geometric mean of what both say.
    chosen = chosen_model("several")
    one = chosen.with_prior(model.shift_.prior.target).scores(Xt)
    other = chosen.scores(model.shift_.explanation("moved columns").undo(Xt))
    P = np.exp(shares.weight * one + moved.weight * other)
    np.testing.assert_allclose(model.predict_proba(Xt), P / P.sum(1, keepdims=True), atol=1e-10)


def test_a_rare_class_keeps_its_share():
    """Three rows of a class do not tell its share of the target."""
    Xs, ys, Xt = pair(0, 300, after=0.9)
    ys = ys.copy()
    ys[:2] = 2
    model = fitted(Xs, ys, Xt)
    assert model.shift_.fitting == ("class shares",)
    (member,) = model.members_
    told = member.model.shares * np.exp(member.model.bias)
    assert told[2] / told.sum() == pytest.approx(2 / 300, rel=1e-6)


def test_a_rare_class_is_never_lost_to_a_sample(monkeypatch):
    monkeypatch.setattr(auto, "EXPLAINED_ROWS", 100)
    Xs, ys, Xt = pair(0, 300, after=0.9)
    for rows in (slice(1), slice(7, 8), slice(50, 52)):
        y = ys.copy()
        y[rows] = 2
        model = fitted(Xs, y, Xt)
        np.testing.assert_array_equal(model.shift_.classes, [0, 1, 2])
        np.testing.assert_allclose(model.predict_proba(Xt).sum(1), 1)


# Where no explanation fits ------------------------------------------------------------------------


def test_tables_that_nothing_explains_get_leaves_beside_the_source_model(monkeypatch):
    """As far as kinds of models agree; one that knows nothing of the source is not asked."""
    Xs, ys, Xt = PROBLEMS["mixed"]()
    yt = Xt[:, 0] * Xt[:, 1] > 0
    (member,) = fitted(Xs, ys, Xt).members_  # a line knows nothing of chequered classes
    assert member.name == "source only, pool"
    assert np.mean(member.scores(Xt).argmax(1) == yt) > 0.9
    monkeypatch.setattr(auto, "ASKED", 0.0)  # it agrees with nobody
    model = fitted(Xs, ys, Xt)
    assert model.shift_.fitting == ()
    leaves, plain = model.members_
    assert (leaves.inputs.kind, leaves.weight) == ("leaves", 1.0)
    assert leaves.model.get_params()["center"] is False
    assert plain.inputs.kind == "raw"
    assert plain.name.startswith("source only, ")
    assert 0 <= plain.weight < auto.MAX_WEIGHT
    assert {"softened", "expected_accuracy", "reason"} <= set(model.calibration_)


def test_source_models_that_agree_on_the_target_need_no_leaves(monkeypatch):
    """All the weight that they can have is theirs."""
    Xs, ys, Xt = PROBLEMS["none"]()
    unexplained(monkeypatch)
    monkeypatch.setattr(auto, "MAX_WEIGHT", 0.0)
    model = fitted(Xs, ys, Xt)
    (member,) = model.members_
    chosen = chosen_model("none")
    assert member.name == f"source only, {chosen.kind}"
    np.testing.assert_allclose(model.predict_proba(Xt), np.exp(chosen.scores(Xt)), atol=1e-10)
    monkeypatch.setattr(auto, "MAX_WEIGHT", 1e9)
    leaves, plain = fitted(Xs, ys, Xt).members_
    assert leaves.inputs.kind == "leaves"
    assert plain.weight > 1  # they agree here as there


def test_forests_that_predict_worse_leave_it_to_adapted_models(monkeypatch):
    """A linear rule in many noisy columns: trees see little of it."""
    rng = np.random.default_rng(0)
    slope = rng.normal(size=40)
    Xs, Xt = rng.normal(size=(200, 40)), np.exp(rng.normal(size=(150, 40)))
    ys = (Xs @ slope > 0).astype(int)
    model = fitted(Xs, ys, Xt)
    assert model.shift_.fitting == ()
    assert all(member.inputs.kind != "leaves" for member in model.members_)
    assert model.members_[0].name.startswith("adapted, ")
    assert model.members_[-1].name == "source only"
    # Not where source-only models agree on the target about as well as on the source.
    monkeypatch.setattr(auto, "LITTLE", 0.0)
    monkeypatch.setattr(auto, "AGREED", 0.0)
    (member,) = fitted(Xs, ys, Xt).members_
    assert member.name == "source only, pool"
    # Nor where trees are worse by less than matters: then rows are a table.
    monkeypatch.setattr(auto, "NOTABLY", 1.0)
    assert fitted(Xs, ys, Xt).members_[0].inputs.kind == "leaves"


def drifting(seed, n=400):
    """Instruments that drift while the target is measured: moved columns nearly, but not quite."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * n, 4))
    y = (X[:, 0] > 0) ^ (X[:, 1] > 1)
    X[n:] += np.array([2.0, -2.0, 1.0, 0.0])
    X[n:] += np.linspace(-1.2, 1.2, n)[:, None] * np.array([1, -1, 1, 1])
    return X[:n], y[:n].astype(int), X[n:], y[n:].astype(int)


@pytest.mark.parametrize("seed", range(2))
def test_where_columns_nearly_moved_the_source_model_reads_rows_both_ways(seed, monkeypatch):
    """Columns as they are mislead it, and those that are moved back are not quite right."""
    Xs, ys, Xt, yt = drifting(seed)
    model = fitted(Xs, ys, Xt)
    assert set(model.shift_.fitting) <= set(auto.FLEXIBLE)
    assert [member.name for member in model.members_] == [
        "source only, pool",
        "source only, pool, moved columns",
    ]
    assert [member.weight for member in model.members_] == [0.5, 0.5]
    assert _action(model).startswith("Moved columns nearly explain it: ")
    low, high = model.calibration_["expected_interval"]
    assert low <= model.score(Xt, yt) <= high
    monkeypatch.setattr(auto, "LITTLE", 0.0)  # no explanation is nearly true
    assert model.score(Xt, yt) > fitted(Xs, ys, Xt).score(Xt, yt) + 0.05


def test_rows_that_were_selected_have_not_nearly_moved():
    """The model of the source is right as it is: it has seen rows of all kinds."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(2000, 2))
    y = (np.floor(X).sum(1) % 2).astype(int)
    there = rng.random(2000) < 1 / (1 + np.exp(-3 * X[:, 0]))
    Xt, yt = X[there][:500], y[there][:500]
    model = fitted(X[~there][:500], y[~there][:500], Xt)
    assert model.shift_.fitting == ()
    assert model.shift_.explanation("moved columns").left < auto.LITTLE
    assert all("moved" not in member.name for member in model.members_)
    assert model.score(Xt, yt) > 0.9


@pytest.mark.parametrize(("rule", "trees"), [("one column", True), ("all columns", False)])
def test_beyond_the_support_trees_speak_if_they_know_the_source_as_well(rule, trees, monkeypatch):
    """Lines and kernels would go on where no source row lies."""
    rng = np.random.default_rng(0)
    Xs = rng.normal(size=(240, 4))
    Xs[:, 0] += np.sign(Xs[:, 0])  # a gap between the classes
    ys = ((Xs[:, 0] if rule == "one column" else Xs.sum(1)) > 0).astype(int)
    Xt = rng.normal(size=(200, 4))
    Xt = np.where(np.arange(200)[:, None] % 2, 0.2 * Xt + 3, Xt - 1)
    model = fitted(Xs, ys, Xt)
    assert model.shift_.fitting == ()

    def speaking(model):
        return {part.kind for part in model.members_[-1].model.model.parts}

    assert (speaking(model) <= {"forest", "boosting"}) == trees
    monkeypatch.setattr(auto, "LOST", 1.0)  # as if target rows lay among those of the source
    assert speaking(fitted(Xs, ys, Xt)) & {"linear", "kernel"}


def chequered(truth):
    """Two normal columns; more of the larger values of the first in the target, or it has moved."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    there = rng.random(1200) < 1 / (1 + np.exp(-2 * X[:, 0]))
    if truth == "moved":
        there = np.arange(1200) < 600
        X[there, 0] += 0.9
    return X[~there][:300], y[~there][:300], X[there][:300], y[there][:300]


def test_selected_rows_are_not_told_for_moved_columns():
    """Nothing in the rows tells the two apart."""
    Xs, ys, Xt, yt = chequered("selected")
    model = fitted(Xs, ys, Xt)
    assert model.shift_.kind == "moved columns"
    assert model.shift_.selected
    low, high = model.calibration_["expected_interval"]
    assert low <= model.score(Xt, yt) <= high
    assert not model.calibration_["can_tell"]
    assert "a selection of rows" in model.calibration_["reason"]


@pytest.mark.parametrize("truth", ["selected", "moved"])
def test_a_few_labels_tell_selected_rows_from_moved_columns(truth, tmp_path):
    Xs, ys, Xt, yt = chequered(truth)
    plain = fitted(Xs, ys, Xt)
    asked = choose_rows(plain, Xt, 10)
    plain.save(tmp_path / "plain.marda")
    assert choose_rows(load(tmp_path / "plain.marda"), Xt, 10).reasons == asked.reasons
    told = "explanations of the shift disagree"
    assert sum(reason.startswith(told) for reason in asked.reasons) >= 5
    assert any("'a selection of rows'" in reason for reason in asked.reasons)
    few = asked.rows[:5]
    X, y, domain = pack(Xs, ys, Xt)
    y[len(ys) + few] = yt[few]
    model = MDAClassifierCV(random_state=0).fit(X, y, sample_domain=domain)
    assert model.score(Xt, yt) > 0.85
    weights = {member.name: member.weight for member in model.members_}
    drawn = sum(weight for name, weight in weights.items() if name.endswith("a selection of rows"))
    assert (drawn > sum(weights.values()) / 2) == (truth == "selected")


@pytest.mark.parametrize("upside_down", [True, False])
def test_adapted_models_that_contradict_the_source_are_not_used(monkeypatch, upside_down):
    """Labels may settle on the classes the wrong way round, and nothing there speaks against it."""
    Xs, ys, Xt = PROBLEMS["none"]()
    unexplained(monkeypatch)
    monkeypatch.setattr(auto, "MAX_WEIGHT", 1e9)
    adapted = auto.fit_leaves

    def turned(*args):
        found = adapted(*args)
        first = found.members[0]
        scores = -first.on_target if upside_down else first.on_target
        return replace(found, members=[replace(first, on_target=scores)])

    monkeypatch.setattr(auto, "fit_leaves", turned)
    names = [member.name for member in fitted(Xs, ys, Xt).members_]
    assert names == (["source only, pool"] if upside_down else ["adapted, leaves rows"])


def test_adapted_models_that_know_less_of_the_source_are_not_asked(monkeypatch):
    """Animals by size and shape: what tells kinds apart is a small difference of like columns."""
    rng = np.random.default_rng(0)
    ys, yt = np.arange(120) % 2, np.arange(120) % 2

    def animals(y, size):
        shape = np.array([1.0, -1.0, 1.0, -1.0, 0.0]) * (y - 0.5)[:, None]
        body = size[:, None] + shape + 0.2 * rng.normal(size=(len(y), 5))
        return np.column_stack([body, rng.uniform(0, 200, size=len(y))])

    Xs = animals(ys, rng.uniform(10, 20, size=120))
    Xt = animals(yt, 20 + rng.exponential(10, size=120))
    model = fitted(Xs, ys, Xt)
    assert model.shift_.fitting == ()
    assert [member.name for member in model.members_] == [
        "source only, pool",
        "source only, pool, moved columns",
    ]
    monkeypatch.setattr(auto, "KNOWN", 0.0)
    adapted = fitted(Xs, ys, Xt)
    assert adapted.members_[0].name.startswith("adapted, ")
    assert model.score(Xt, yt) > max(0.9, adapted.score(Xt, yt))
    monkeypatch.undo()
    monkeypatch.setattr(auto, "LITTLE", 0.0)  # on rows as they are alone
    (member,) = fitted(Xs, ys, Xt).members_
    assert member.name == "source only, pool"


def test_wide_rows_that_nothing_explains_are_adapted(default):
    model = default("words")
    assert model.shift_.fitting == ()
    assert [m.inputs.kind for m in model.members_] == ["unit", "sqrt", "unit"]
    assert [m.name for m in model.members_] == [
        "adapted, unit rows",
        "adapted, sqrt rows",
        "source only",
    ]
    assert {"softened", "expected_accuracy", "reason"} <= set(model.calibration_)


# What is known of it ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_interval_holds_the_expected_accuracy(name, default):
    model = default(name)
    found = model.calibration_
    low, high = found["expected_interval"]
    assert 0 <= low <= found["expected_accuracy"] <= high <= 1
    assert found["can_tell"] in (True, False)
    assert found["reason"]
    assert found["can_tell"] or high - low > 0.2
    assert 0 <= model.target_skill_ <= 1
    assert 0 <= model.source_skill_ <= 1
    assert np.isfinite(model.predict_proba(PROBLEMS[name]()[2])).all()


@pytest.mark.parametrize("name", ["none", "class shares", "moved columns"])
def test_what_is_expected_is_found(name, default):
    """Of 2,000 rows drawn as the target's were."""
    share = 0.9 if name == "class shares" else 0.5
    X, y = classes(2000, 4, share, np.random.default_rng(9))
    X = 1.5 * X + 1.0 if name == "moved columns" else X
    model = default(name)
    low, high = model.calibration_["expected_interval"]
    assert low <= model.score(X, y) <= high
    assert model.calibration_["expected_accuracy"] == pytest.approx(model.score(X, y), abs=0.05)
    assert model.calibration_["can_tell"]


@pytest.mark.parametrize("name", ["too few rows", "one target row", "constant target"])
def test_too_few_rows_do_not_tell(name, default):
    model = default(name)
    assert not model.calibration_["can_tell"]
    assert model.calibration_["reason"] == "there are too few rows to tell what differs"


def test_outliers_do_not_decide(default):
    """Three rows that are far away: the explanation stays, and so do most predictions."""
    model, without = default("outliers"), default("class shares")
    assert model.shift_.fitting == without.shift_.fitting == ("class shares",)
    Xt = PROBLEMS["class shares"]()[2][2:]
    assert np.mean(model.predict(Xt) == without.predict(Xt)) > 0.97


def test_probabilities_are_calibrated_where_the_target_is_like_the_source():
    (Xs, ys), (Xt, yt) = gaussian(0, 400, gap=1.0), gaussian(1, 400, gap=1.0)
    model, raw = fitted(Xs, ys, Xt), fitted(Xs, ys, Xt, calibrate=False)
    assert raw.calibration_ == {}
    assert expected_calibration_error(model.predict_proba(Xt), yt) < 0.08
    on_source = {"sharpness", "ece_before", "ece_after", "rows"}
    on_target = {"expected_accuracy", "expected_interval", "can_tell", "reason"}
    assert set(model.calibration_) == on_source | on_target
    assert abs(model.calibration_["expected_accuracy"] - model.score(Xt, yt)) < 0.05
    np.testing.assert_array_equal(model.predict(Xt), raw.predict(Xt))


# Rows of all kinds --------------------------------------------------------------------------------


def test_labelled_target_rows_are_learned_from():
    Xs, ys, Xt, yt = sensors(1)
    few = np.where(np.arange(len(yt)) < 12, yt, -1)
    model = fitted(Xs, ys, Xt, few)
    assert model.setting_ == "SS"
    assert model.shift_.kind == "moved columns"
    names = [member.name for member in model.members_]
    assert names[0] == "source only, pool, moved columns"
    assert "source and labels, pool, moved columns" in names
    assert "expected_interval" in model.calibration_


@pytest.mark.parametrize(("name", "after"), [("none", 0.5), ("class shares", 0.9)])
def test_labels_do_not_undo_what_is_known_without_them(name, after):
    """The adapted ensemble, which labels once led to, costs ten points here."""
    rng = np.random.default_rng(5)
    (Xs, ys), (Xt, yt) = classes(200, 4, 0.5, rng), classes(1200, 4, after, rng)
    plain = fitted(Xs, ys, Xt[:200])
    without = plain.score(Xt[200:], yt[200:])
    for n in (5, 200):
        few = np.where(np.arange(200) < n, yt[:200], -1)
        model = fitted(Xs, ys, Xt[:200], few)
        assert model.shift_.kind == plain.shift_.kind
        assert model.score(Xt[200:], yt[200:]) > without - 0.015
        low, high = model.calibration_["expected_interval"]
        assert low <= model.score(Xt[200:], yt[200:]) <= high


def test_labels_decide_between_explanations_that_fit(default):
    """Shares or moved columns: only labels can tell, and do."""
    Xs, ys, Xt = PROBLEMS["several"]()
    plain = default("several")
    assert plain.shift_.kind == "several"
    told = {member.name.split(", ")[-1]: member for member in plain.members_}
    for name in plain.shift_.fitting:  # as if it were true
        yt = told[name].scores(Xt).argmax(1)
        model = fitted(Xs, ys, Xt, np.where(np.arange(len(yt)) % 2 == 0, yt, -1))
        weights = dict(zip(model.shift_.fitting, model.shift_.weights, strict=True))
        before = dict(zip(plain.shift_.fitting, plain.shift_.weights, strict=True))
        assert weights[name] > before[name]
        assert np.mean(model.predict(Xt) == yt) > np.mean(plain.predict(Xt) == yt)


def test_many_labels_are_believed_more_than_any_explanation():
    """Classes that changed places: no explanation without labels can know."""
    rng = np.random.default_rng(0)
    (Xs, ys), (Xt, yt) = (classes(200, 4, 0.5, rng) for _ in range(2))
    yt = 1 - yt
    few = np.where(np.arange(200) < 100, yt, -1)
    model = fitted(Xs, ys, Xt, few)
    assert model.shift_.fitting
    assert model.score(Xt[100:], yt[100:]) > 0.85
    low, high = model.calibration_["expected_interval"]
    assert low <= model.score(Xt[100:], yt[100:]) <= high


def test_a_class_that_only_target_labels_know():
    rng = np.random.default_rng(0)
    (Xs, ys), (Xt, yt) = (classes(100, 4, 0.5, rng) for _ in range(2))
    Xt[:40, 1] += 5
    yt[:40] = 2
    model = fitted(Xs, ys, Xt, np.where(np.arange(100) % 2 == 0, yt, -1))
    assert model.shift_ is None
    assert np.mean(model.predict(Xt[:40]) == 2) > 0.9
    assert not model.calibration_["can_tell"]
    assert model.calibration_["expected_interval"] == [0.0, 1.0]
    assert "no row of some class" in model.calibration_["reason"]


@pytest.mark.parametrize("name", ["too few rows", "one target row", "constant target", "mixed"])
@pytest.mark.parametrize("n", [1, 1000])
def test_odd_targets_with_labels(name, n, default):
    Xs, ys, Xt = PROBLEMS[name]()
    yt = default(name).predict(Xt)
    model = fitted(Xs, ys, Xt, np.where(np.arange(len(yt)) < n, yt, -1))
    P = model.predict_proba(Xt)
    assert np.isfinite(P).all()
    assert np.mean(model.predict(Xt) == yt) > 0.85
    low, high = model.calibration_["expected_interval"]
    assert 0 <= low <= model.calibration_["expected_accuracy"] <= high <= 1


def test_nothing_is_explained_without_a_target():
    X, y = gaussian(0, 200)
    model = MDAClassifierCV(random_state=0).fit(X, y)
    assert model.shift_ is None
    assert "expected_accuracy" not in model.calibration_
    assert model.score(*gaussian(1, 200)) > 0.88


@pytest.mark.parametrize("name", ["none", "several", "mixed"])
def test_the_order_of_rows_does_not_matter(name, default):
    X, y, domain = pack(*PROBLEMS[name]())
    order = np.random.default_rng(3).permutation(len(X))
    other = MDAClassifierCV(random_state=0).fit(X[order], y[order], sample_domain=domain[order])
    model = default(name)
    assert other.shift_.kind == model.shift_.kind
    assert [m.name for m in other.members_] == [m.name for m in model.members_]
    np.testing.assert_allclose(other.predict_proba(X), model.predict_proba(X), atol=1e-10)
    np.testing.assert_allclose(
        other.calibration_["expected_interval"],
        model.calibration_["expected_interval"],
        atol=1e-10,
    )


def test_units_do_not_matter():
    Xs, ys, Xt = pair(0, 100, after=0.9)
    base = fitted(Xs, ys, Xt)
    for factor in (1e-150, 1e-4, 1e5, 1e100):
        scaled = fitted(Xs * factor, ys, Xt * factor)
        assert base.shift_.fitting == scaled.shift_.fitting, factor
        np.testing.assert_array_equal(
            base.predict(Xt), scaled.predict(Xt * factor), err_msg=f"{factor}"
        )


def test_two_sources_are_one_where_they_are_alike():
    Xs, ys, Xt = PROBLEMS["class shares"]()
    X, y, domain = pack(Xs, ys, Xt)
    domain = np.where(domain < 0, -1, np.arange(len(domain)) % 2)
    model = MDAClassifierCV(random_state=0).fit(X, y, sample_domain=domain)
    assert model.domains_.tolist() == [-1, 0, 1]
    assert model.shift_.fitting == ("class shares",)
    (member,) = model.members_
    assert member.name.startswith("source only, ")
    assert np.mean(model.predict(Xt) == 1) == pytest.approx(0.9, abs=0.05)


def test_two_targets_are_told_as_one(default):
    X, y, domain = pack(*PROBLEMS["class shares"]())
    domain = np.where(domain < 0, -1 - np.arange(len(domain)) % 2, domain)
    two = MDAClassifierCV(random_state=0).fit(X, y, sample_domain=domain)
    assert two.domains_.tolist() == [-2, -1, 1]
    assert two.shift_.fitting == default("class shares").shift_.fitting


def test_sparse_tables_are_told_as_dense_ones():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    Xs, Xt = (rng.poisson(0.3 + 1.5 * y[:, None] * (np.arange(8) < 2), (120, 8)) for _ in range(2))
    dense = fitted(Xs.astype(float), y, Xt.astype(float))
    sparse = fitted(sp.csr_array(Xs.astype(float)), y, sp.csr_array(Xt.astype(float)))
    assert sparse.shift_.kind == dense.shift_.kind
    assert [m.name for m in sparse.members_] == [m.name for m in dense.members_]
    np.testing.assert_allclose(sparse.predict_proba(Xt), dense.predict_proba(Xt), atol=1e-8)


@pytest.mark.parametrize("n_source", [2, 3, 5])
@pytest.mark.parametrize("n_target", [1, 100])
def test_very_few_rows(n_source, n_target):
    Xs, ys, Xt = pair(0, 100, n_target=n_target)
    few = np.r_[np.flatnonzero(ys == 0)[: (n_source + 1) // 2], np.flatnonzero(ys)[: n_source // 2]]
    model = fitted(Xs[few], ys[few], Xt)
    assert model.shift_.kind == "too few rows"
    assert not model.calibration_["can_tell"]
    np.testing.assert_allclose(model.predict_proba(Xt).sum(1), 1)


def test_names_of_columns_are_told():
    pd = pytest.importorskip("pandas")
    Xs, ys, Xt = PROBLEMS["moved columns"]()
    X, y, domain = pack(Xs, ys, Xt)
    frame = pd.DataFrame(X, columns=["age", "size", "dose", "time"])
    model = MDAClassifierCV(random_state=0).fit(frame, y, sample_domain=domain)
    assert {move.name for move in model.shift_.moved} <= set(frame.columns)
    assert model.shift_.moved[0].name in model.shift_.sentence()


def test_another_fit_forgets_what_was_known():
    Xs, ys, Xt = PROBLEMS["too few rows"]()
    model = fitted(Xs, ys, Xt)
    assert model.shift_.kind == "too few rows"
    assert "expected_interval" in model.calibration_
    X, y = gaussian(0, 100)
    model.fit(X, y)
    assert model.shift_ is None
    assert "expected_interval" not in model.calibration_
    model.set_params(candidates={"method": ["BL"]}).fit(X, y)
    for name in ("shift_", "source_skill_", "target_skill_"):
        assert not hasattr(model, name)


def test_it_says_what_it_does(capsys):
    Xs, ys, Xt = PROBLEMS["moved columns"]()
    model = fitted(Xs, ys, Xt, verbose=1)
    said = capsys.readouterr().out
    assert said.startswith("[marda] asking what differs\n")
    assert model.shift_.sentence() in said


def test_no_accuracy_is_promised_where_a_class_has_no_weight():
    """Models that were told nothing of a class know nothing of its rows."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 400)
    Xs, Xt = rng.normal(y[:, None], 1, (400, 4)), rng.normal(y[:, None], 1, (400, 4))
    X, labels, domain = pack(Xs, y, Xt)
    model = MDAClassifierCV(random_state=0, class_weight={0: 0.0})
    model.fit(X, labels, sample_domain=domain)
    assert "sharpness" in model.calibration_
    assert not model.calibration_["can_tell"]
    assert model.calibration_["expected_interval"] == [0.0, 1.0]


# The model of the source alone --------------------------------------------------------------------


def test_a_plain_model_is_expected_to_lose_where_columns_moved():
    rng = np.random.default_rng(0)
    ys, yt = np.arange(200) % 2, np.arange(150) % 2
    Xs = rng.normal(2 * ys[:, None] * [1, 1, 0], 1, (200, 3))
    Xt = rng.normal(2 * yt[:, None] * [1, 1, 0], 1, (150, 3))
    away = Xt + np.array([3, 0, 0])
    same = auto.fit_plain(Xs, ys, Xt)
    moved = auto.fit_plain(Xs, ys, away, columns=["a", "b", "c"])
    assert same.shift.kind == "none"
    assert moved.shift.sentence() == "The target looks like the source with a moved or stretched."
    assert abs(same.accuracy - moved.accuracy) < 0.02  # other folds
    for plain, rows in ((same, Xt), (moved, away)):
        low, high = plain.expectation.interval
        assert low <= np.mean(plain.predict(rows) == yt) <= high
    assert moved.expectation.interval[1] < moved.accuracy < same.expectation.interval[1]


def test_a_plain_model_does_not_depend_on_the_order_of_rows():
    Xs, ys, Xt = pair(0, 120, d=3)
    order = np.random.default_rng(1).permutation(len(Xs))
    one = auto.fit_plain(Xs, np.array(["no", "yes"])[ys], Xt)
    other = auto.fit_plain(Xs[order], np.array(["no", "yes"])[ys[order]], Xt[::-1])
    assert one.classes.tolist() == ["no", "yes"]
    assert one.expectation == other.expectation
    assert one.predict(Xt).tolist() == other.predict(Xt).tolist()


def silent(sparse, value, n_target=60):
    """Three columns tell the classes; the first has one value in the target."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, 2, size=200)
    X = rng.normal(size=(200, 6)) + 1.5 * y[:, None] * (np.arange(6) < 3)
    X[:, 0] += 3
    ours, theirs = X[:-n_target], X[-n_target:]
    theirs[:, 0] = value
    wrap = sp.csr_array if sparse else np.asarray
    return wrap(ours), y[:-n_target], wrap(theirs), y[-n_target:]


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("value", [0.0, -999.0])
def test_columns_with_one_value_in_the_target_are_left_out(sparse, value):
    Xs, ys, Xt, yt = silent(sparse, value)
    before = Xs.copy()
    with pytest.warns(UserWarning, match="hardly any source row has: column 0"):
        clf = fitted(Xs, ys, Xt)
    assert clf.shift_.kind == "none"
    without = fitted(Xs[:, 1:], ys, Xt[:, 1:])
    assert clf.score(Xt, yt) >= without.score(Xt[:, 1:], yt) - 0.02
    np.testing.assert_array_equal(*(A.toarray() if sparse else A for A in (Xs, before)))
    # Nothing was learned of it: rows in which it speaks again have the same classes.
    back = Xt.tolil() if sparse else Xt.copy()
    back[:, 0] = 3.0
    np.testing.assert_array_equal(clf.predict(back.tocsr() if sparse else back), clf.predict(Xt))


def test_a_value_that_source_rows_have_and_four_rows_are_no_silent_column(recwarn):
    Xs, ys, Xt, _ = silent(False, 0.0)
    Xs[:20, 0] = 0.0
    fitted(Xs, ys, Xt)
    fitted(Xs[20:], ys[20:], Xt[:4])
    assert not [str(one.message) for one in recwarn if "not used" in str(one.message)]
