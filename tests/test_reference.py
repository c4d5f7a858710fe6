"""Every model against docs/math.md in extended precision (400 bits): right, or refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from flint import arb, arb_mat, ctx
from sklearn.exceptions import ConvergenceWarning

import reference_sweep
from marda import MDAClassifier
from problems import make_case, relative
from reference import BITS, Problem, reference_fit, solve
from reference_sweep import REGIMES, SETTINGS, SOLVERS, Spec, error_of, is_refusal, outcome

METHODS = (
    *("BL", "MCF", "S1", "S1M", "S1C", "S1D", "S1MD", "S1MCD"),
    *("J12", "J12M", "J12C", "J12D", "J12MD", "J12CD"),
)
DEFINED = [
    (m, s) for m in METHODS for s in SETTINGS if s != "US" or "C" not in m.removeprefix("MCF")
]
SCALINGS = (("balanced", "exact"), ("paper", "paper"), ("relative", "exact"))
PROBLEMS = reference_sweep.problems()
#: In the default suite: three problems per regime, which differ in everything.
FEW = [s for r, regime in enumerate(REGIMES) for s in PROBLEMS[r::17] if s.regime == regime]


# The reference itself -----------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("method", "setting"), [d for d in DEFINED if d[0] not in ("BL", "MCF")])
def test_gradients_of_the_written_losses_vanish(method, setting, bias):
    sources = 1 + (len(method) + len(setting) + bias) % 2
    scaling, marginalization = SCALINGS[(len(method) + len(setting)) % 3]
    case = make_case(setting, sources=sources, d=3, n_source=12, n_target=12, seed=4)
    problem = Problem(
        case.X,
        case.codes,
        case.domain,
        method=method,
        noise=np.array([0.0, 0.3, 0.6]),
        class_loss_weight=0.7,
        domain_loss_weight=1.4,
        scaling=scaling,
        marginalization=marginalization,
        fit_intercept=bias,
        class_weight={0: 2.0},
    )
    found = problem.fit(3)
    gradient = largest_slope(lambda W: problem.loss(W, *found.before), found.exact_W)
    assert gradient < 1e-80 * float(problem.loss(found.exact_W, *found.before))
    W, Z, z0 = found.exact_W, found.exact_Z, found.exact_z0
    assert largest_slope(lambda Z: problem.class_loss(W, Z, z0), Z) < 1e-80
    if bias:
        assert largest_slope(lambda z0: problem.class_loss(W, Z, z0), z0) < 1e-80


def largest_slope(function, at) -> float:
    """Of a quadratic, by central differences, which are exact: zero but for 400-bit rounding."""
    ctx.prec = BITS
    worst = 0.0
    for i in range(at.nrows()):
        for j in range(at.ncols()):
            step = arb_mat(at.nrows(), at.ncols())
            step[i, j] = arb(1)
            slope = (function(at + step) - function(at - step)) / 2
            worst = max(worst, abs(float(slope.mid())))
    return worst


def test_a_slope_that_is_not_zero_is_seen():
    case = make_case("US", d=3, n_source=12, n_target=12)
    problem = Problem(case.X, case.codes, case.domain, method="J12D")
    found = problem.fit(2)
    assert largest_slope(lambda W: problem.loss(W, *found.before), problem.start) > 1e-3


def test_a_singular_system_is_not_solved():
    with pytest.raises(ZeroDivisionError):
        solve(arb_mat([[1, 2], [2, 4]]), arb_mat([[1], [1]]))


@pytest.mark.parametrize(("scaling", "marginalization"), SCALINGS)
@pytest.mark.parametrize(("method", "setting"), DEFINED)
def test_well_conditioned_problems_agree(method, setting, scaling, marginalization):
    exact = marginalization == "exact"
    for sources, bias in ((1, exact), (2, not exact)):
        case = make_case(setting, sources=sources, n_source=24, n_target=15, seed=sources)
        options = {
            "method": method,
            "noise": 0.3,
            "ridge": 0.1,
            "ridge_class": 0.5,
            "ridge_domain": 0.7,
            "class_loss_weight": 0.8,
            "domain_loss_weight": 1.3,
            "scaling": scaling,
            "marginalization": marginalization,
            "fit_intercept": bias,
            "class_weight": "balanced" if bias else None,
        }
        model = MDAClassifier(**options, solver="primal", max_iter=4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(case.X, case.codes, sample_domain=case.domain)
        found = reference_fit(case.X, case.codes, case.domain, n_iter=int(model.n_iter_), **options)
        # Several prediction terms are solved by conjugate gradients, which stop.
        tolerance = 1e-9 if method.startswith("J12") and "D" in method else 1e-11
        assert relative(model.coef_, found.coef) < tolerance
        assert relative(model.W_, found.W) < tolerance
        assert relative(model.Z_, found.Z) < tolerance
        assert relative(model.transform(case.X), found.transform(case.X)) < tolerance
        assert relative(model.decision_function(case.X), found.scores(case.X)) < tolerance
        if bias:
            assert relative(model.intercept_, found.intercept) < tolerance
            assert relative(model.offset_, found.offset) < tolerance


def test_two_classes_have_one_row_of_coefficients():
    case = make_case("SS", n_classes=2)
    model = MDAClassifier("S1M").fit(case.X, case.codes, sample_domain=case.domain)
    found = reference_fit(case.X, case.codes, case.domain, method="S1M")
    assert model.coef_.shape == found.coef.shape
    assert relative(model.coef_, found.coef) < 1e-11
    scores = found.scores(case.X)
    assert relative(model.decision_function(case.X), scores[:, 0]) < 1e-11


# The sweep ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("spec", FEW, ids=str)
def test_right_or_refused(spec: Spec, solver):
    found = outcome(spec, solver)
    assert found.acceptable, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("spec", [s for s in PROBLEMS if s not in FEW], ids=str)
def test_right_or_refused_everywhere(spec: Spec):
    found = [outcome(spec, solver) for solver in SOLVERS]
    assert all(o.acceptable for o in found), "\n".join(map(str, found))


def test_the_sweep_covers_what_it_says():
    assert len(PROBLEMS) == len(set(PROBLEMS)) >= 300
    for regime in REGIMES:
        here = [s for s in PROBLEMS if s.regime == regime]
        assert {(s.sources, s.bias, s.dtype, s.shape) for s in here} == {
            (n, bias, dtype, shape)
            for n in (1, 2)
            for bias in (True, False)
            for dtype in ("float32", "float64")
            for shape in ("wide", "long")
        }
        assert {(s.method, s.setting) for s in here} == {
            (m, s) for m in reference_sweep.MODELS for s in SETTINGS if not (s == "US" and "C" in m)
        }
        assert sum(s.regime == regime for s in FEW) >= 2


def test_errors_are_seen():
    wanted = np.array([[1.0, -1.0], [3.0, 1.0]])
    assert error_of("coef", wanted, wanted) == 0
    assert error_of("coef", wanted * (1 + 1e-7), wanted) == pytest.approx(1e-7)
    # denoised rows: relative to their spread, which an offset does not change
    assert error_of("rows", wanted + 1e6 + 1e-3, wanted + 1e6) == pytest.approx(1e-3, rel=1e-3)
    assert error_of("scores", wanted.astype(np.float32), wanted) == 0
    assert error_of("rows", (wanted * (1 + 1e-3)).astype(np.float32), wanted) > 1e-3
    assert error_of("coef", wanted * np.nan, wanted) == np.inf
    assert error_of("coef", wanted[:1], wanted) == np.inf


@pytest.mark.parametrize(
    ("error", "honest"),
    [
        (ValueError("X is so badly scaled that no route is right: scale its columns."), True),
        (OverflowError("sums of squares overflow: scale the rows."), True),
        (ValueError("G is singular: use a ridge above 0."), False),  # it is above 0
        (ValueError("G is singular to working precision: use a ridge above 0.3."), True),
        (np.linalg.LinAlgError("SVD did not converge"), False),
        (ValueError("array must not contain infs or NaNs"), False),
        (KeyError("Z"), False),
    ],
)
def test_what_counts_as_a_refusal(error, honest):
    assert is_refusal(error, {}) is honest


def test_a_ridge_of_zero_may_be_called_singular():
    assert is_refusal(ValueError("G is singular: use a ridge above 0."), {"ridge": 0.0})


def test_the_command_prints_the_table(capsys):
    given = ["--regime", "ordinary", "--method", "S1M", "--solver", "primal", "cg"]
    reference_sweep.main(given)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("6 problems, 12 fits")
    assert [line.split("|")[2].strip() for line in lines if "| ordinary |" in line] == [
        "primal",
        "cg",
    ]
