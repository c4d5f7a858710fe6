"""Every slip of the paper that docs/errata.md names, shown on a small problem; and the page."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from scipy.linalg import solve_sylvester

from marda import MDA
from marda._arrays import SingularError
from marda.benchmarks import published
from marda.datasets import load, make_task
from marda.noise import Dropout
from marda.problem import Settings
from marda.terms import (
    class_discrepancy,
    classes_to_target,
    domain_discrepancy,
    parse_method,
)
from oracles import Written, numerical_gradient
from problems import full_map, make_case, moments_of, problem_of, relative, solved

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "errata.md"
Q, P = 0.6, 0.4  # keep, drop


def settings(**changes) -> Settings:
    given = {"ridge": 0.0, "class_loss_weight": 0.7, "domain_loss_weight": 1.3} | changes
    return Settings(Dropout(P), fit_intercept=False, **given)


def slope(oracle: Written, W: np.ndarray, Z: np.ndarray) -> float:
    """Of the written loss at W, relative to its slope at W = 0."""
    z0 = np.zeros(Z.shape[1])
    at, start = (numerical_gradient(lambda V: oracle.loss(V, Z, z0), A) for A in (W, 0 * W))
    return float(np.linalg.norm(at) / np.linalg.norm(start))


# The page -----------------------------------------------------------------------------------------


@pytest.mark.skipif(not PAGE.exists(), reason="no pages in this copy")
def test_every_erratum_names_tests_that_exist():
    text = PAGE.read_text(encoding="utf-8")
    entries = re.split(r"^## (?=\d+\. )", text, flags=re.MULTILINE)[1:]
    numbers = [int(entry.split(".")[0]) for entry in entries]
    assert numbers == list(range(1, len(numbers) + 1))
    for entry in entries:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", entry)
        assert named, entry.splitlines()[0]
        for file, test in named:
            tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
            assert test in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}, test


# Formulas -----------------------------------------------------------------------------------------


def test_n_with_plus_signs_is_no_distance_of_centroids():
    case = make_case("US", seed=3)
    source, target = case.domain == 0, case.domain < 0
    right = np.where(source, 1 / source.sum(), -1 / target.sum())
    printed = np.abs(right)  # n nᵀ has 1/(N_s N_t) between the domains, as the paper prints
    apart = case.X[source].mean(0) - case.X[target].mean(0)
    np.testing.assert_allclose(case.X.T @ right, apart, atol=1e-13)
    term = domain_discrepancy(moments_of(case), Dropout(0.0), "exact")
    np.testing.assert_allclose(term.rows.T @ term.rows, np.outer(apart, apart), atol=1e-12)
    # Domains with one mean are at distance 0, but not by the printed signs.
    case.X[target] += apart
    assert np.abs(case.X.T @ right).max() < 1e-12
    assert np.abs(case.X.T @ printed).max() > 1


def test_c_of_target_pairs_counts_target_rows_of_the_class():
    case = make_case("SS", seed=4)
    known, target = case.labelled, case.domain < 0

    def loss(pair_of_targets):
        C = np.zeros((len(case.X), len(case.X)))
        for c in range(case.n_classes):
            s, t = ((case.codes == c) & side for side in (~target, target))
            C += np.outer(s, s) / s.sum() ** 2 + np.outer(t, t) * pair_of_targets(t.sum())
            C -= (np.outer(s, t) + np.outer(t, s)) / (s.sum() * t.sum())
        return case.X.T @ C @ case.X

    term = class_discrepancy(moments_of(case), Dropout(0.0), "exact")
    assert relative(loss(lambda n: 1 / n**2), term.rows.T @ term.rows) < 1e-12
    of_all = int((known & target).sum())  # N_t^t read as the labelled rows of the target
    assert relative(loss(lambda n: 1 / (n * of_all)), term.rows.T @ term.rows) > 0.1


def test_the_domain_predictor_has_a_weight_per_feature():
    case = make_case("US", seed=5)
    z = problem_of(case, settings()).domain_term.Z
    y = np.where(case.domain < 0, 1.0, -1.0)
    d = case.X.shape[1]
    assert z.shape == (d, 1)
    assert d != len(case.X)
    expected = np.linalg.solve(case.X.T @ case.X + np.eye(d), case.X.T @ y)
    np.testing.assert_allclose(z[:, 0], expected, rtol=1e-9)


def test_b_of_j12d_is_made_of_b12():
    case = make_case("SS", seed=6)
    oracle = Written(case, parse_method("J12D"), settings())
    Z, z0 = oracle.z_step(np.eye(6))
    gamma, z, _, _ = oracle.domain_predictor
    right = np.linalg.inv(np.eye(6) + gamma * z @ z.T)
    A = np.linalg.solve(oracle.Q_l, oracle.Q)  # A₁₂ at ω = 0, and A
    T_d = oracle.inputs[0].sum(0)[:, None]
    R = oracle.P + 0.7 * oracle.T @ Z.T + gamma * T_d @ z.T
    C = np.linalg.solve(oracle.Q_l, R) @ right
    W = solve_sylvester(A, 0.7 * Z @ Z.T @ right, C)
    assert slope(oracle, W, Z) < 1e-8
    assert relative(full_map(solved(case, "J12D", settings(), max_iter=1, tol=0)), W) < 1e-8
    printed = solve_sylvester(A, A @ right, C)
    assert slope(oracle, printed, Z) > 0.1
    assert z0.max() == 0


def test_the_closed_form_of_sup_has_an_inverse_at_its_end():
    case = make_case("SUP", seed=7)
    oracle = Written(case, parse_method("J12"), settings())
    Z, _ = oracle.z_step(np.eye(6))
    left = np.linalg.solve(oracle.Q_l, oracle.P + 0.7 * oracle.T @ Z.T)
    last = np.eye(6) + 0.7 * Z @ Z.T
    assert slope(oracle, left @ np.linalg.inv(last), Z) < 1e-8
    assert slope(oracle, left @ last, Z) > 1e-3


@pytest.mark.parametrize("weight", [0.1, 1.0, 25.0])
def test_z_does_not_depend_on_lambda(weight):
    case = make_case("SS", seed=8)
    W = np.random.default_rng(0).standard_normal((6, 6))
    found = []
    for changed in (weight, 1.0):
        oracle = Written(case, parse_method("J12D"), settings(class_loss_weight=changed))
        Z, z0 = oracle.z_step(W)
        total = numerical_gradient(lambda V, o=oracle, z=z0: o.loss(W, V, z), Z)
        assert np.abs(total).max() < 1e-8 * changed * np.abs(oracle.T).max() + 1e-9
        found.append(Z)
    np.testing.assert_allclose(*found)
    # The domain predictor's term has a penalty of its own, α, where z_D is learned, and none here.
    strong = Written(case, parse_method("S1D"), settings(ridge_class=9.0))
    weak = Written(case, parse_method("S1D"), settings(ridge_class=0.1))
    zero = np.zeros((6, case.n_classes))
    assert strong.loss(W, zero, zero[0]) == weak.loss(W, zero, zero[0])


def test_the_gradient_of_the_class_loss():
    case = make_case("SS", seed=9)
    oracle = Written(case, parse_method("J12"), settings())
    rng = np.random.default_rng(1)
    W, Z = rng.standard_normal((6, 6)), rng.standard_normal((6, case.n_classes))
    X, Y = case.X[case.labelled], oracle.Y[case.labelled]
    none = np.zeros(case.n_classes)
    true = numerical_gradient(lambda V: oracle.class_loss(V, Z, none), W)

    def gradient(S):
        second = Q**2 * S + Q * P * np.diag(np.diag(S))
        return -2 * Q * X.T @ Y @ Z.T + 2 * second @ W @ Z @ Z.T

    assert relative(gradient(X.T @ X), true) < 1e-8
    # S_l = XᵀX of all rows, as printed, is another matrix; X_lᵀY_l Z_l is not even d×d.
    assert relative(gradient(case.X.T @ case.X), true) > 0.01
    assert (X.T @ Y).shape[1] != Z.shape[0]


def test_an_equation_with_both_matrices_on_the_left_is_not_a_sylvester_equation():
    case = make_case("SS", seed=10)
    oracle = Written(case, parse_method("J12"), settings(ridge=0.3))
    Z, z0 = oracle.z_step(np.eye(6))
    A, B = np.linalg.solve(oracle.Q_l, oracle.G), 0.7 * Z @ Z.T
    C = np.linalg.solve(oracle.Q_l, oracle.P + 0.7 * oracle.T @ Z.T)
    assert slope(oracle, oracle.sylvester_step(Z, z0), Z) < 1e-8
    assert slope(oracle, np.linalg.solve(A + B, C), Z) > 1e-3


# S1D and J12D without ω, γ = 2 --------------------------------------------------------------------


def test_without_omega_s1d_is_the_papers_closed_form():
    case = make_case("US", seed=11)
    oracle = Written(case, parse_method("S1D"), settings())
    gamma, z, _, _ = oracle.domain_predictor
    right = oracle.P + gamma * oracle.inputs[0].sum(0)[:, None] @ z.T
    W = np.linalg.solve(oracle.Q, right) @ np.linalg.inv(np.eye(6) + gamma * z @ z.T)
    assert relative(full_map(solved(case, "S1D", settings())), W) < 1e-8
    # ω changes W: it was left out for the solver's sake, not because it does nothing.
    assert relative(full_map(solved(case, "S1D", settings(ridge=0.3))), W) > 1e-4


@pytest.mark.parametrize("method", ["S1D", "J12D"])
def test_without_omega_an_empty_column_is_refused(method):
    case = make_case("US", seed=12)
    case.X[:, 2] = 0
    with pytest.raises(SingularError, match="ridge"):
        solved(case, method, settings())
    assert np.isfinite(full_map(solved(case, method, settings(ridge=1e-2)))).all()


def test_without_omega_noise_makes_few_rows_enough():
    """Q = q²S + q(1−q)diag(S) is positive definite where no column is empty, whatever the rank."""
    few = make_case("US", n_source=3, n_target=2, d=9, seed=13)
    assert np.linalg.matrix_rank(few.X) == 5
    assert np.isfinite(full_map(solved(few, "S1D", settings()))).all()
    silent = Settings(Dropout(0.0), ridge=0.0, fit_intercept=False)
    with pytest.raises(SingularError, match="ridge"):
        solved(few, "S1D", silent)


@pytest.mark.data
def test_every_task_of_amt_has_empty_columns():
    data = load("amt")
    empty = []
    for source, target in data.pairs():
        task = make_task(data, source, target)
        used = task.X_source.getnnz(axis=0) + task.X_target.getnnz(axis=0)
        empty.append(int((used == 0).sum()))
    assert (min(empty), max(empty)) == (39, 185)


@pytest.mark.parametrize("method", ["S1D", "J12D"])
def test_two_columns_of_the_domain_predictor_are_gamma_two(method):
    """±1 columns [−z_D, z_D] and wanted predictions [−1, 1] double the domain term."""
    case = make_case("SS", seed=14)
    oracle = Written(case, parse_method(method), settings(domain_loss_weight=1.0))
    W = full_map(solved(case, method, settings(domain_loss_weight=2.0), max_iter=1, tol=0))
    joint = method == "J12D"
    Z, _ = oracle.z_step(np.eye(6)) if joint else (np.zeros((6, case.n_classes)), None)
    _, z, _, _ = oracle.domain_predictor
    two, wanted = np.hstack([-z, z]), np.array([[-1.0, 1.0]])
    T = oracle.inputs[0].sum(0)[:, None] @ wanted
    left = (oracle.Q @ W) + oracle.Q @ W @ two @ two.T
    right = oracle.P + T @ two.T
    if joint:
        left += 0.7 * oracle.Q_l @ W @ Z @ Z.T
        right += 0.7 * oracle.T @ Z.T
    assert relative(left, right) < 1e-8


def test_class_means_may_be_brought_to_the_mean_of_the_target():
    case = make_case("US", seed=15)
    X, source = case.X, case.domain >= 0
    found = classes_to_target(moments_of(case), Dropout(0.0), "exact")
    gaps = [
        X[source & (case.codes == c)].mean(0) - X[~source].mean(0) for c in range(case.n_classes)
    ]
    np.testing.assert_allclose(
        found.rows.T @ found.rows, sum(np.outer(v, v) for v in gaps), atol=1e-12
    )
    y = np.where(source, case.codes, -1)
    options = {"noise": 0.3, "fit_intercept": False, "class_means": "source-to-target"}

    def spread(**changes):  # of denoised source classes about the denoised target
        model = MDA("S1C", **{**options, **changes}).fit(X, y, sample_domain=case.domain)
        H = model.transform(X)
        centre = H[~source].mean(0)
        each = [H[source & (case.codes == c)].mean(0) - centre for c in range(case.n_classes)]
        return np.linalg.norm(each) / np.linalg.norm(H - H.mean(0))

    assert spread(domain_loss_weight=100.0) < 0.5 * spread(domain_loss_weight=1e-6)
    with pytest.raises(ValueError, match="needs labelled target rows"):
        spread(class_means="labelled")
    with pytest.raises(ValueError, match="class_means must be one of"):
        spread(class_means="both")


# Figures ------------------------------------------------------------------------------------------


def test_the_printed_mean_of_gfk_is_not_that_of_its_tasks():
    for method, (*tasks, mean) in published.OFF31_QUOTED.items():
        if mean is None:
            continue
        if method == "GFK+SVM":
            assert (mean, round(fmean(tasks), 1)) == (49.1, 52.8)
        else:
            assert abs(fmean(tasks) - mean) <= 0.051, method


def test_s1m_is_in_the_text_alone():
    assert published.S1M_QUOTED == 86.5
    for classifier in ("nn", "dscm", "ridge"):
        assert published.paper_figure("us", "oc10", "S1M", classifier) is None
        figures = [
            published.paper_figure("us", "oc10", m, classifier) for m in ("BL", "S1", "S1D", "J12")
        ]
        assert max(figures) < published.S1M_QUOTED  # and it is above every cell of the table


def test_off31_is_printed_twice_with_different_means():
    pairs = {("J12", "nn"): (67.7, 64.3), ("S1D", "ridge"): (67.1, 65.3)}
    for (model, classifier), (first, second) in pairs.items():
        assert published.paper_figure("us", "off31", model, classifier) == first
        *tasks, mean = published.OFF31_PRINTED[model, classifier]
        assert mean == second
        assert abs(fmean(tasks) - mean) <= 0.051


def test_averages_of_rows_differ_from_those_in_the_text():
    def average(model):
        columns = [(d, c) for d in ("oc10", "off31") for c in ("nn", "dscm", "ridge")]
        columns.append(("amt", "ridge"))
        figures = [published.paper_figure("us", d, model, c) for d, c in columns]
        return round(fmean(figures), 1)

    assert {m: average(m) for m in ("S1", "S1D", "J12")} == {"S1": 75.0, "S1D": 75.6, "J12": 74.7}
