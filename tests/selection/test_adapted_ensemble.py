"""The adapted ensemble: its rules, and that it helps or at least does no harm."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_moons

from marda import MDAClassifier, MDAClassifierCV, pack
from marda._validation import Labels
from marda.selection import adapted_ensemble, inputs
from marda.selection.adapted_ensemble import noise_rule
from marda.selection.inputs import UNIT

pytestmark = pytest.mark.usefixtures("adapted_default")


def fitted(Xs, ys, Xt, yt=None, **options):
    X, y, domain = pack(Xs, ys, Xt, yt)
    model = MDAClassifierCV(random_state=0, **options).fit(X, y, sample_domain=domain)
    source = model.members_[-1]
    assert source.name == "source only"
    return model, lambda rows: model.classes_[source.scores(rows).argmax(1)]


def gaussian(seed, n, share=0.5, gap=1.5, shift=0.0, d=10):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    X = rng.normal(size=(n, d)) + shift
    X[:, 0] += gap * (2 * y - 1)
    return X, y


def sensors(seed, n=300, d=20, n_classes=4):
    """One recording, and another by instruments with other offsets and gains."""
    rng = np.random.default_rng(seed)
    means = 0.7 * rng.normal(size=(n_classes, d))
    ys, yt = np.arange(n) % n_classes, np.arange(n) % n_classes
    Xs, Xt = (means[y] + rng.normal(size=(n, d)) for y in (ys, yt))
    return Xs, ys, Xt * np.exp(0.3 * rng.normal(size=d)) + 1.5 * rng.normal(size=d), yt


def counts(seed, n, words, shares=(0.5, 0.5)):
    rng = np.random.default_rng(seed)
    y = rng.choice(2, n, p=shares)
    topics = np.random.default_rng(99).dirichlet(np.full(300, 0.1), size=2) * words
    X = np.vstack([rng.multinomial(40, topics[c] / topics[c].sum()) for c in y])
    return sp.csr_array(X.astype(float)), y


@pytest.mark.parametrize("seed", range(3))
def test_it_helps_where_instruments_differ(seed):
    Xs, ys, Xt, yt = sensors(seed)
    model, source_only = fitted(Xs, ys, Xt)
    assert model.score(Xt, yt) > np.mean(source_only(Xt) == yt) + 0.05


def test_rows_that_differ_in_length_keep_it():
    rng = np.random.default_rng(0)

    def rings(n, at):
        y = np.arange(n) % 2
        turn, radius = rng.uniform(0, 2 * np.pi, n), 1 + y + rng.normal(0, 0.15, n)
        return np.stack([radius * np.cos(turn) + at, radius * np.sin(turn)], 1), y

    (Xs, ys), (Xt, yt) = rings(200, 0.0), rings(200, 0.3)
    model, _ = fitted(Xs, ys, Xt)
    assert model.members_[0].inputs.kind == "standard"
    assert model.score(Xt, yt) > 0.95


def test_a_turned_shape_is_followed():
    Xs, ys = make_moons(200, noise=0.1, random_state=0)
    Xt, yt = make_moons(200, noise=0.1, random_state=1)
    turn = np.deg2rad(30)
    Xt = Xt @ np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    model, source_only = fitted(Xs, ys, Xt)
    assert model.score(Xt, yt) > np.mean(source_only(Xt) == yt) + 0.05


@pytest.mark.parametrize("seed", range(3))
def test_other_class_shares_are_not_taken_for_a_shift(seed):
    """Centring would cut the target's large class in two: 64 % right instead of 99 %."""
    Xs, ys = gaussian(seed, 300, gap=2.5)
    Xt, yt = gaussian(seed + 10, 300, share=0.95, gap=2.5)
    model, source_only = fitted(Xs, ys, Xt)
    assert model.score(Xt, yt) > np.mean(source_only(Xt) == yt) - 0.02
    assert model.members_[0].model.target_shares_[1] > 0.85
    always = MDAClassifier(
        "S1", classifier="kernel", center=True, normalize=True, refine=5, class_weight="balanced"
    )
    X, y, domain = pack(Xs, ys, Xt)
    assert always.fit(X, y, sample_domain=domain).score(Xt, yt) < 0.8


@pytest.mark.parametrize("seed", range(3))
def test_a_rare_class_stays_rare(seed):
    """One row in ten is of the second class, in both domains: balanced centres would cost 8 %."""
    (Xs, ys), (Xt, yt) = gaussian(seed, 600, share=0.1), gaussian(seed + 10, 300, share=0.1)
    model, source_only = fitted(Xs, ys, Xt)
    assert model.score(Xt, yt) > np.mean(source_only(Xt) == yt) - 0.01


def test_counts_get_second_inputs_and_much_noise():
    Xs, ys = counts(0, 200, np.ones(300))
    Xt, yt = counts(1, 200, np.exp(np.random.default_rng(5).normal(0, 1, 300)))
    model, source_only = fitted(Xs, ys, Xt)
    assert [m.inputs.kind for m in model.members_] == ["unit", "sqrt", "unit"]
    assert [m.weight for m in model.members_[:2]] == [0.5, 0.5]
    odds = (1 - model.target_skill_) / model.target_skill_
    assert model.members_[-1].weight == pytest.approx(odds**2)
    assert model.score(Xt, yt) >= np.mean(source_only(Xt) == yt) - 0.01


def test_noise_is_the_share_of_zeros_within_bounds():
    assert noise_rule(np.ones((4, 5))) == 0.5
    assert noise_rule(np.eye(20)) == 0.9
    assert noise_rule(np.triu(np.ones((10, 10)), 4)) == pytest.approx(1 - 21 / 100)


@pytest.mark.parametrize("factor", [1e-4, 1e5])
def test_units_do_not_matter(factor):
    Xs, ys, Xt, _ = sensors(0, n=120)
    base, scaled = (fitted(Xs * f, ys, Xt * f)[0] for f in (1.0, factor))
    np.testing.assert_array_equal(base.predict(Xt), scaled.predict(Xt * factor))


def test_a_few_target_labels_help():
    Xs, ys, Xt, yt = sensors(1)
    few = np.where(np.arange(len(yt)) < 12, yt, -1)
    without, with_few = fitted(Xs, ys, Xt)[0], fitted(Xs, ys, Xt, few)[0]
    assert with_few.setting_ == "SS"
    assert with_few.score(Xt[12:], yt[12:]) >= without.score(Xt[12:], yt[12:]) - 0.01


def test_probabilities_are_calibrated_where_the_target_is_like_the_source():
    from marda.criteria import expected_calibration_error

    (Xs, ys), (Xt, yt) = gaussian(0, 400, gap=1.0), gaussian(1, 400, gap=1.0)
    model, _ = fitted(Xs, ys, Xt)
    raw, _ = fitted(Xs, ys, Xt, calibrate=False)
    assert raw.calibration_ == {}
    after = expected_calibration_error(model.predict_proba(Xt), yt)
    assert after < 0.08
    assert after < expected_calibration_error(raw.predict_proba(Xt), yt)
    on_source = {"sharpness", "ece_before", "ece_after", "rows", "softened"}
    expected = {"expected_accuracy", "expected_interval", "can_tell", "reason"}
    assert set(model.calibration_) == on_source | expected
    assert not model.calibration_["can_tell"]  # the adapted ensemble alone has no evidence
    np.testing.assert_array_equal(model.predict(Xt), raw.predict(Xt))


def test_large_domains_are_sampled_and_rare_classes_kept():
    rng = np.random.default_rng(0)
    ys = np.r_[np.zeros(500), np.ones(12)].astype(int)
    Xs = rng.normal(size=(512, 5)) + 3 * ys[:, None]
    Xt = rng.normal(size=(400, 5)) + 1
    model, _ = fitted(Xs, ys, Xt, max_rows=60)
    basis = model.members_[0].model.classifier_.basis_
    assert len(basis) <= 60 + 12 + 20 + 60
    np.testing.assert_array_equal(model.classes_, [0, 1])
    same, _ = fitted(Xs, ys, Xt, max_rows=60)
    np.testing.assert_array_equal(model.predict_proba(Xt), same.predict_proba(Xt))


def test_without_a_target_it_is_a_classifier():
    X, y = gaussian(0, 200)
    model = MDAClassifierCV(random_state=0).fit(X, y)
    assert model.score(*gaussian(1, 200)) > 0.88


def test_a_table_in_many_units_is_standardised(monkeypatch):
    """A salary next to zeros and ones: unit rows show the salary alone."""
    rng = np.random.default_rng(0)

    def people(n, raise_):
        answers = rng.integers(0, 2, (n, 12)).astype(float)
        salary = rng.lognormal(10 + raise_, 0.3, n)
        y = (answers[:, :5].sum(1) + rng.normal(0, 0.4, n) > 2.5).astype(int)
        return np.column_stack([salary, answers]), y

    (Xs, ys), (Xt, yt) = people(300, 0.0), people(300, 0.2)
    model, _ = fitted(Xs, ys, Xt)
    assert {m.inputs.kind for m in model.members_} == {"standard"}
    assert model.score(Xt, yt) > 0.8
    monkeypatch.setattr(inputs, "MARGIN", 1.0)
    usual = fitted(Xs, ys, Xt)[0]
    assert usual.source_skill_ < model.source_skill_ - 0.02
    assert usual.score(Xt, yt) < model.score(Xt, yt)


def test_inputs_are_compared_on_few_rows(monkeypatch):
    seen = []
    kappa = adapted_ensemble.MemberFits.kappa
    monkeypatch.setattr(adapted_ensemble, "COMPARED_ROWS", 50)
    monkeypatch.setattr(
        adapted_ensemble.MemberFits,
        "kappa",
        lambda fits, option: seen.append(fits.X.shape[0]) or kappa(fits, option),
    )
    Xs, ys, Xt, _ = sensors(0, n=120)
    model, _ = fitted(Xs, ys, Xt)
    assert set(seen) == {48 + 50 + 32}  # at least 20 of every class, or its share
    assert model.members_[0].model.classifier_.basis_.shape[0] == 240


def test_empty_rows_are_nobodys_neighbours():
    """At distance 1 from every row of unit length, they would be next to all that share no word."""
    rng = np.random.default_rng(0)
    X = sp.csr_array((rng.random((200, 400)) < 0.005).astype(float))
    X = sp.vstack([X[np.diff(X.indptr) > 0], sp.csr_array((20, 400))]).tocsr()
    n = X.shape[0] - 20
    labels = Labels(np.array([0, 1]), np.full(n + 20, -1))
    fits = adapted_ensemble.MemberFits(X, labels, np.full(n + 20, -1), "balanced", 0, 0.9, None)
    near = fits.neighbours(fits.inputs(UNIT))
    np.testing.assert_array_equal(near.rows, np.arange(n))
    assert near.nearest.max() < n
