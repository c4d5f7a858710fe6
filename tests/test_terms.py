"""Marginalised losses against sampled corruption, and the terms that make up (★)."""

from __future__ import annotations

import numpy as np
import pytest

from marda.noise import Dropout, Gaussian, Poisson
from marda.problem import Settings
from marda.terms import (
    class_discrepancy,
    classes_to_target,
    domain_discrepancy,
    domain_targets,
    label_products,
    parse_method,
)
from oracles import corrupt
from problems import Case, make_case, moments_of, problem_of

DRAWS = 3000
NOISES = [
    Dropout(0.4),
    Dropout(np.array([0.1, 0.6, 0.3, 0.0])),
    Dropout(0.3, unbiased=True),
    Gaussian(0.7),
    Poisson(),
]


def small(**options):
    return make_case("SS", d=4, n_source=9, n_target=15, positive=True, seed=2, **options)


def draws_of(noise, X, function):
    rng = np.random.default_rng(1)
    return np.array([function(corrupt(noise, X, rng)) for _ in range(DRAWS)])


def standard_errors(closed, draws):
    """|closed − mean of draws| in standard errors, the worst entry."""
    error = draws.std(0, ddof=1) / np.sqrt(len(draws))
    return float((np.abs(closed - draws.mean(0)) / (error + 1e-12)).max())


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_losses_agree_with_sampled_corruption(noise, fit_intercept):
    """L1, L2 and L_d of random W and Z, as the library computes them."""
    case = small()
    X, N = case.X, len(case.X)
    problem = problem_of(case, Settings(noise, fit_intercept=fit_intercept))
    rng = np.random.default_rng(3)
    W = rng.standard_normal((4 + fit_intercept, 4))
    Z, z0 = rng.standard_normal((4, 3)), rng.standard_normal(3) * fit_intercept
    # The library's coordinates: inputs about a∘m, outputs about m.
    a, m = problem.scale, problem.center
    Q = problem.all_rows

    def inputs(rows):
        return np.hstack([rows - a * m, np.ones((len(rows), 1))]) if fit_intercept else rows

    P = inputs(a * X).T @ (X - m)
    L1 = problem.squared_norm - 2 * np.vdot(P, W) + np.vdot(W, Q.matmul(W))
    draws = draws_of(noise, X, lambda C: ((X - m - inputs(C) @ W) ** 2).sum())
    assert standard_errors(L1, draws) < 5

    known = case.labelled
    Y = np.where(case.codes[known, None] == np.arange(3), 1.0, -1.0)
    L2 = problem.class_term(Z, z0).loss(W @ Z)
    draws = draws_of(noise, X, lambda C: ((Y - inputs(C[known]) @ W @ Z - z0) ** 2).sum())
    assert standard_errors(L2, draws) < 5

    term = problem.domain_term
    L_d = term.loss(W @ term.Z)
    draws = draws_of(noise, X, lambda C: ((1 - inputs(C) @ W @ term.Z - term.z0) ** 2).sum())
    assert standard_errors(L_d, draws) < 5
    assert L_d > 0.01 * N


@pytest.mark.parametrize("sources", [1, 2])
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_exact_M_agrees_with_sampled_corruption(noise, sources):
    """M entry by entry, and L_m, L_c = tr(WᵀMW), for one source and for the average over two."""
    case = small(sources=sources)
    moments, target = moments_of(case), case.domain < 0
    W = np.random.default_rng(4).standard_normal((4, 4))

    def between(source, target):
        return source / source.sum() - target / target.sum()

    both = {
        "domain": (
            domain_discrepancy(moments, noise, "exact"),
            [between(case.domain == s, target) for s in range(sources)],
        ),
        "class": (
            class_discrepancy(moments, noise, "exact"),
            [
                between((case.domain == s) & (case.codes == c), target & (case.codes == c))
                for s in range(sources)
                for c in range(3)
            ],
        ),
    }
    for term, pairs in both.values():
        M = term.rows.T @ term.rows + np.diag(term.diagonal)
        n = np.array(pairs) / np.sqrt(sources)
        draws = draws_of(noise, case.X, lambda C, n=n: (n @ C).T @ (n @ C))
        assert standard_errors(M, draws) < 5
        draws = draws_of(noise, case.X, lambda C, n=n: ((n @ C @ W) ** 2).sum())
        assert standard_errors(np.vdot(W, M @ W), draws) < 5


@pytest.mark.parametrize("noise", NOISES[:2], ids=repr)
@pytest.mark.parametrize("discrepancy", [domain_discrepancy, class_discrepancy])
def test_the_papers_diagonal_fails_the_same_test(discrepancy, noise):
    case = small()
    moments, target = moments_of(case), case.domain < 0
    if discrepancy is domain_discrepancy:
        n = np.array([(case.domain == 0) / 9 - target / 15])
    else:
        sets = [
            ((case.domain == 0) & (case.codes == c), target & (case.codes == c)) for c in range(3)
        ]
        n = np.array([s / s.sum() - t / t.sum() for s, t in sets])
    draws = draws_of(noise, case.X, lambda C: (n @ C).T @ (n @ C))
    terms = {rule: discrepancy(moments, noise, rule) for rule in ("exact", "paper")}
    M = {rule: t.rows.T @ t.rows + np.diag(t.diagonal) for rule, t in terms.items()}
    assert standard_errors(M["exact"], draws) < 5
    assert standard_errors(M["paper"], draws) > 20
    # It is only the diagonal that is wrong.
    off = ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(M["paper"][off], M["exact"][off], rtol=1e-12)


def test_the_papers_diagonal_is_q_times_v_squared():
    case = make_case("US", d=4, seed=5)
    v = case.X[case.domain == 0].mean(0) - case.X[case.domain < 0].mean(0)
    term = domain_discrepancy(moments_of(case), Dropout(0.3), "paper")
    M = 0.7**2 * np.outer(v, v)
    M[np.diag_indices(4)] = 0.7 * v**2
    np.testing.assert_allclose(term.rows.T @ term.rows + np.diag(term.diagonal), M, rtol=1e-12)


@pytest.mark.parametrize("noise", [Gaussian(1.0), Poisson(), Dropout(0.3, unbiased=True)], ids=repr)
def test_the_papers_diagonal_is_defined_for_dropout_only(noise):
    moments = moments_of(make_case("US", positive=True))
    with pytest.raises(ValueError, match="'paper' is defined for dropout noise only"):
        domain_discrepancy(moments, noise, "paper")


def test_without_noise_M_is_of_rank_one_for_each_pair():
    """XᵀNX = v vᵀ with N = n nᵀ, minus signs between domains (math.md §4.1)."""
    case = make_case("US", seed=6)
    n = np.where(case.domain < 0, -1 / 28, 1 / 36)
    term = domain_discrepancy(moments_of(case), Dropout(0.0), "exact")
    assert term.rows.shape == (1, 6)
    np.testing.assert_allclose(term.diagonal, 0, atol=1e-15)
    np.testing.assert_allclose(
        term.rows.T @ term.rows, case.X.T @ np.outer(n, n) @ case.X, atol=1e-12
    )
    # Equal means: no discrepancy.
    same = case._replace(X=np.vstack([case.X[:28], case.X[:28], case.X[:8] * 0]).copy())
    same = same.take(slice(0, 56))._replace(domain=np.repeat([0, -1], 28))
    assert np.abs(domain_discrepancy(moments_of(same), Dropout(0.0), "exact").rows).max() < 1e-13


def test_class_discrepancy_needs_a_shared_labelled_class():
    case = make_case("US")
    message = "needs labelled target rows of a class that the source has too.*label a few"
    with pytest.raises(ValueError, match=message):
        class_discrepancy(moments_of(case), Dropout(0.5), "exact")
    case = make_case("SUP")
    apart = (case.domain < 0) == (case.codes == 2)  # class 2 is the target's alone
    with pytest.raises(ValueError, match=message):
        class_discrepancy(moments_of(case.take(apart)), Dropout(0.5), "exact")


def test_several_targets_are_pooled():
    case = make_case("SUP", seed=7)
    split = case._replace(
        domain=np.where((case.domain < 0) & (np.arange(64) % 3 == 0), -5, case.domain)
    )
    for discrepancy in (domain_discrepancy, class_discrepancy):
        one = discrepancy(moments_of(case), Dropout(0.4), "exact")
        two = discrepancy(moments_of(split), Dropout(0.4), "exact")
        np.testing.assert_allclose(one.rows, two.rows, atol=1e-12)
        np.testing.assert_allclose(one.diagonal, two.diagonal, rtol=1e-12)
    assert domain_targets(moments_of(split)).wanted.tolist() == [1.0]


def test_domain_targets():
    one = domain_targets(moments_of(make_case("US", n_classes=2)))
    assert one.labels.ravel().tolist() == [1.0, -1.0, -1.0]  # groups: target, then two classes
    assert one.weight == 1
    two = domain_targets(moments_of(make_case("US", sources=2, n_classes=2)))
    assert two.labels.tolist() == [[-1, -1, 1]] + [[1, -1, -1]] * 2 + [[-1, 1, -1]] * 2
    assert two.wanted.tolist() == [-1, -1, 1]
    assert two.weight == 0.5


def test_label_products_are_weighted_sums_over_labelled_rows():
    case = make_case("SS", seed=8)
    weights, center = np.array([1.0, 2.0, 0.5]), np.arange(6.0)
    XY, Y = label_products(moments_of(case), weights, center)
    known = case.labelled
    labels = np.where(case.codes[known, None] == np.arange(3), 1.0, -1.0)
    labels = weights[case.codes[known], None] * labels
    np.testing.assert_allclose(XY, (case.X[known] - center).T @ labels, rtol=1e-11)
    np.testing.assert_allclose(Y, labels.sum(0), rtol=1e-13)


@pytest.mark.parametrize(
    ("method", "flags"),
    [
        ("BL", (False, False, False, False, False)),
        ("MCF", (False, False, False, False, False)),
        ("S1", (True, False, False, False, False)),
        ("S1M", (True, False, True, False, False)),
        ("S1C", (True, False, False, True, False)),
        ("S1D", (True, False, False, False, True)),
        ("J12", (True, True, False, False, False)),
        ("J12DC", (True, True, False, True, True)),
        ("J12MCD", (True, True, True, True, True)),
    ],
)
def test_method_names(method, flags):
    model = parse_method(method)
    assert (model.denoise, model.joint, model.mmd, model.class_mmd, model.domain) == flags
    assert model.name == method


@pytest.mark.parametrize("method", ["", "S2", "s1", "S1X", "S1MM", "J12 D", "BLM", None, 3])
def test_unknown_methods(method):
    with pytest.raises(ValueError, match=r"method must be 'BL', 'MCF', or 'S1' or 'J12'.*got"):
        parse_method(method)


def test_classes_to_the_target_are_means_over_sources_of_labelled_rows():
    """A source that is there twice counts as once, rows without a label count as none."""
    rng = np.random.default_rng(0)
    X, codes = rng.standard_normal((20, 4)), np.r_[np.arange(10) % 2, np.full(10, -1)]
    domain = np.repeat([0, -1], 10)

    def matrix(X, codes, domain):
        found = classes_to_target(moments_of(Case(X, codes, domain, 2)), Dropout(0.3), "exact")
        return found.rows.T @ found.rows + np.diag(found.diagonal)

    once = matrix(X, codes, domain)
    twice = matrix(np.r_[X[:10], X], np.r_[codes[:10], codes], np.r_[np.ones(10, int), domain])
    np.testing.assert_allclose(twice, once, atol=1e-13)
    more = np.r_[X, 5 + rng.standard_normal((3, 4))]
    unlabelled = matrix(more, np.r_[codes, [-1] * 3], np.r_[domain, [0] * 3])
    np.testing.assert_allclose(unlabelled, once, atol=1e-13)
    with pytest.raises(ValueError, match="needs labelled source rows"):
        matrix(X, np.full(20, -1), domain)
