"""Domain-specific class means against a loop over domains, classes and rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from estimators.helpers import fitted
from marda import DSCM
from problems import make_case, relative


def naive(case, X, temperature=None, weights=None):
    """score_c(x) = Σ_D w_D exp(−½‖x − μ_D,c‖²/τ), normalised (math.md §10)."""
    weights = weights or {}
    means, spread, n = {}, 0.0, 0
    for domain in np.unique(case.domain):
        for c in range(case.n_classes):
            rows = case.X[(case.domain == domain) & (case.codes == c)]
            if len(rows):
                means[domain, c] = rows.mean(0)
                spread += ((rows - rows.mean(0)) ** 2).sum()
                n += len(rows)
    tau = spread / n if temperature is None else temperature
    S = np.zeros((len(X), case.n_classes))
    for i, x in enumerate(X):
        for (domain, c), mean in means.items():
            S[i, c] += weights.get(domain, 1.0) * np.exp(-0.5 * ((x - mean) ** 2).sum() / tau)
    return S, tau


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 3.0}, {"domain_weights": {-1: 4.0, 1: 0.2}}]
)
@pytest.mark.parametrize("sparse", [True, False])
def test_the_formula(options, sparse):
    case = make_case("SS", sources=2, seed=1)
    X = sp.csr_array(case.X) if sparse else case.X
    model = fitted(DSCM(**options), case, X)
    S, tau = naive(case, case.X, options.get("temperature"), options.get("domain_weights"))
    assert model.temperature_ == pytest.approx(tau)
    assert relative(model.predict_proba(X), S / S.sum(1, keepdims=True)) < 1e-9
    assert relative(model.decision_function(X), np.log(S)) < 1e-9
    np.testing.assert_array_equal(model.predict(X), S.argmax(1))


def test_with_one_domain_it_is_the_nearest_mean():
    """The temperature does not change the arg max then."""
    case = make_case("US", seed=2)
    means = np.array([case.X[case.codes == c].mean(0) for c in range(3)])
    nearest = ((case.X[:, None] - means) ** 2).sum(2).argmin(1)
    for temperature in (None, 0.5, 50.0):
        model = fitted(DSCM(temperature=temperature), case)
        np.testing.assert_array_equal(model.predict(case.X), nearest)


def test_two_classes():
    case = make_case("SS", n_classes=2, seed=3)
    model = fitted(DSCM(), case)
    S, _ = naive(case, case.X)
    decision = model.decision_function(case.X)
    np.testing.assert_allclose(decision, np.log(S[:, 1]) - np.log(S[:, 0]), rtol=1e-8)
    np.testing.assert_array_equal(model.predict(case.X), (decision > 0).astype(int))


def test_scores_do_not_underflow_far_away():
    case = make_case("SS", seed=4)
    P = fitted(DSCM(temperature=1e-3), case).predict_proba(case.X * 100)
    np.testing.assert_allclose(P.sum(1), 1)
    assert np.isfinite(P).all()


def test_rows_on_their_means_have_no_scale_of_their_own():
    X = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    model = DSCM().fit(X, [0, 0, 1, 1])
    assert model.temperature_ == 1.0
    assert model.predict(X).tolist() == [0, 0, 1, 1]


def test_a_domain_that_lacks_a_class():
    case = make_case("SS", sources=2, seed=5)
    case = case.take(~((case.domain == 1) & (case.codes == 0)))
    model = fitted(DSCM(), case)
    S, _ = naive(case, case.X)
    assert len(model.means_) == 8
    assert relative(model.predict_proba(case.X), S / S.sum(1, keepdims=True)) < 1e-9


def test_rows_far_from_the_origin():
    case = make_case("SS", seed=6)
    near, far = fitted(DSCM(), case), fitted(DSCM(), case._replace(X=case.X + 1e6))
    assert relative(far.temperature_, near.temperature_) < 1e-6
    assert (far.predict(case.X + 1e6) == near.predict(case.X)).mean() > 0.98


def test_order_of_rows_and_marks():
    case = make_case("SS", seed=7)
    other = case.take(np.random.default_rng(0).permutation(64))
    a, b = fitted(DSCM(), case), fitted(DSCM(), other)
    assert relative(b.predict_proba(case.X), a.predict_proba(case.X)) < 1e-9
    marked = np.where(case.codes < 0, 77, case.codes)
    c = DSCM(unlabeled=77).fit(case.X, marked, sample_domain=case.domain)
    np.testing.assert_array_equal(c.means_, a.means_)


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1e6 + 0.1])
def test_rounding_is_no_temperature(value):
    """Sums about the mean of all rows leave rounding, which is no temperature."""
    X = np.full((40, 1), value)
    X[20:] += np.linspace(0.1, 3, 20)[:, None]
    y = np.where(np.arange(40) < 20, np.arange(40) % 2, -1)
    model = DSCM().fit(X, y, sample_domain=np.repeat([1, -1], 20))
    assert model.temperature_ == 1.0


@pytest.mark.parametrize("sparse", [True, False])
def test_rows_far_from_zero(sparse):
    """Squares of such rows have no digits left for what is between them: they are never taken."""
    case = make_case("SS", seed=4)
    rounded = case._replace(X=case.X.astype(np.float32).astype(np.float64))
    far = rounded.X + 2.0**27  # exact
    model = fitted(DSCM(temperature=3.0), rounded, sp.csr_array(far) if sparse else far)
    S, _ = naive(rounded, rounded.X, temperature=3.0)
    found = model.predict_proba(sp.csr_array(far) if sparse else far)
    assert np.abs(found - S / S.sum(1, keepdims=True)).max() < 1e-7
