"""Bad input: one clear ValueError each."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from estimators.helpers import fitted
from marda import DSCM, MDA, MDAClassifier
from marda.noise import Gaussian, Poisson
from problems import make_case

CASE = make_case("US", seed=1)
BOTH = [MDA, MDAClassifier]
ALL = [MDA, MDAClassifier, DSCM]


def fit(estimator, X=None, y=None, domain=None):
    return estimator.fit(
        CASE.X if X is None else X,
        CASE.codes if y is None else y,
        sample_domain=CASE.domain if domain is None else domain,
    )


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(
    ("value", "message"), [(np.nan, "X contains NaN"), (np.inf, "X contains infinity")]
)
def test_rows_that_are_not_finite(cls, value, message, sparse):
    X = CASE.X.copy()
    X[3, 2] = value
    X = sp.csr_array(X) if sparse else X
    with pytest.raises(ValueError, match=message):
        fit(cls(), X)
    model = fit(cls())
    with pytest.raises(ValueError, match=message):
        (model.transform if cls is MDA else model.predict)(X)


@pytest.mark.parametrize("cls", [MDAClassifier, DSCM])
def test_one_class(cls):
    y = np.where(CASE.codes >= 0, 0, -1)
    with pytest.raises(ValueError, match="y must have at least 2 classes, got one class: \\[0\\]"):
        fit(cls(), y=y)


def test_a_joint_transformer_needs_labels():
    with pytest.raises(ValueError, match="method='J12' requires y to be passed"):
        MDA("J12").fit(CASE.X, sample_domain=CASE.domain)
    with pytest.raises(
        ValueError, match=r"method='J12' needs labels of at least 2 classes.*one class"
    ):
        fit(MDA("J12"), y=np.where(CASE.codes >= 0, 0, -1))
    for cls in (MDAClassifier, DSCM):
        with pytest.raises(ValueError, match="requires y to be passed"):
            cls().fit(CASE.X, None)


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize(
    ("domain", "message"),
    [
        (np.zeros(64, dtype=int), "sample_domain has no target rows"),
        (-np.ones(64, dtype=int), "sample_domain has no source rows"),
        (CASE.domain[:-1], "sample_domain has 63 values but X has 64 rows"),
        (CASE.domain + 0.5, "sample_domain must hold whole numbers"),
        (np.full(64, "source"), "sample_domain must hold whole numbers"),
    ],
)
def test_domains(cls, domain, message):
    with pytest.raises(ValueError, match=message):
        fit(cls(), y=np.abs(CASE.codes), domain=domain)


@pytest.mark.parametrize("cls", [MDAClassifier, DSCM])
def test_labels_of_the_wrong_length(cls):
    with pytest.raises(ValueError, match="y has 63 labels but X has 64 rows"):
        fit(cls(), y=CASE.codes[:-1])


@pytest.mark.parametrize("cls", [MDAClassifier, DSCM])
def test_source_rows_without_a_label(cls):
    y = CASE.codes.astype(float)
    y[5] = np.nan
    with pytest.raises(ValueError, match=r"no label .* for source row 5.*Only target rows"):
        fit(cls(), y=y)


@pytest.mark.parametrize("cls", [MDAClassifier, DSCM])
def test_continuous_labels(cls):
    with pytest.raises(ValueError, match="Unknown label type"):
        fit(cls(), y=np.where(CASE.codes < 0, -1.0, CASE.codes + 0.25 * np.arange(64)))


@pytest.mark.parametrize("cls", [MDAClassifier, DSCM])
def test_the_mark_is_a_source_class(cls):
    y = np.where(CASE.codes == 0, -1, CASE.codes)
    with pytest.raises(ValueError, match=r"is also a class of the source rows.*unlabeled="):
        fit(cls(), y=y)


@pytest.mark.parametrize("cls", ALL)
def test_features_at_predict(cls):
    model = fit(cls())
    use = model.transform if cls is MDA else model.predict
    with pytest.raises(ValueError, match=r"X has 5 features, but .* is expecting 6 features"):
        use(CASE.X[:, :5])
    named = fit(cls(), pd.DataFrame(CASE.X, columns=list("abcdef")))
    use = named.transform if cls is MDA else named.predict
    with pytest.raises(ValueError, match="feature names should match"):
        use(pd.DataFrame(CASE.X, columns=list("abcdeg")))


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("noise", [1.0, -0.1, 1.5, np.nan, [0.1] * 5 + [1.0]])
def test_noise_outside_its_range(cls, noise):
    with pytest.raises(ValueError, match=r"noise must be a dropout probability in \[0, 1\), got"):
        fit(cls(noise=noise))


@pytest.mark.parametrize("cls", BOTH)
def test_noise_of_the_wrong_kind(cls):
    with pytest.raises(ValueError, match="noise has 2 values but X has 6 features"):
        fit(cls(noise=[0.1, 0.2]))
    with pytest.raises(ValueError, match=r"noise must be a dropout probability.*got 'some'"):
        fit(cls(noise="some"))
    with pytest.raises(ValueError, match="Poisson noise needs non-negative features"):
        fit(cls(noise=Poisson()), X=CASE.X - 10)
    with pytest.raises(ValueError, match="'paper' is defined for dropout noise only"):
        fit(cls("S1M", noise=Gaussian(1.0), marginalization="paper"))


@pytest.mark.parametrize("sparse", [True, False])
def test_poisson_sees_single_negative_entries(sparse):
    """A negative entry among larger ones leaves the sum of its column positive."""
    X = np.abs(CASE.X)
    X[3, 2] = -0.5
    X = sp.csr_array(X) if sparse else X
    with pytest.raises(ValueError, match="Poisson noise needs non-negative features"):
        fit(MDA("S1", noise=Poisson()), X=X)


NUMBERS = ["ridge", "ridge_class", "ridge_domain", "class_loss_weight", "domain_loss_weight", "tol"]


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, "a"])
def test_negative_or_senseless_numbers(cls, name, value):
    wanted = "must be a number" if value == "a" else "must be at least 0"
    with pytest.raises(ValueError, match=f"{name} {wanted}, got"):
        fit(cls(**{name: value}))


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "S9"}, "method must be .*got 'S9'"),
        ({"marginalization": "none"}, "marginalization must be one of .*got 'none'"),
        ({"scaling": "none"}, "scaling must be one of"),
        ({"solver": "magic"}, "solver must be one of"),
        ({"activation": "step"}, "activation must be one of"),
        ({"n_layers": 0}, "n_layers must be a whole number, at least 1, got 0"),
        ({"n_layers": 1.5}, "n_layers must be a whole number"),
        ({"max_iter": 0}, "max_iter must be a whole number, at least 1, got 0"),
        ({"n_pivots": 0}, "n_pivots must be a whole number, at least 1, got 0"),
        ({"n_pivots": True}, "n_pivots must be a whole number"),
        ({"method": "BL", "n_pivots": 3}, "n_pivots has no meaning for BL"),
        ({"method": "J12", "class_weight": "fair"}, "class_weight must be None, 'balanced'"),
        ({"method": "J12", "class_weight": {9: 1.0}}, "class_weight names 9"),
        ({"method": "J12", "class_weight": {0: -1.0}}, "class_weight must be finite"),
        ({"method": "J12", "class_weight": {0: 0, 1: 0, 2: 0}}, "class_weight"),
    ],
)
def test_parameters(cls, options, message):
    with pytest.raises(ValueError, match=message):
        fit(cls(**options))


@pytest.mark.parametrize("classifier", ["svm", LinearRegression(), None])
def test_classifier(classifier):
    with pytest.raises(
        ValueError, match="classifier must be 'ridge', 'kernel', 'nn', 'dscm' or a scikit-learn"
    ):
        fit(MDAClassifier(classifier=classifier))


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("solver", ["auto", "primal", "dual", "cg"])
def test_no_ridge_and_an_empty_column(cls, solver):
    """Q is singular: a column of zeros."""
    X = CASE.X.copy()
    X[:, 4] = 0
    with pytest.raises(ValueError, match=r"(singular|zeros on the diagonal).*use a ridge above 0"):
        fit(cls("S1", ridge=0.0, solver=solver), X)
    with pytest.raises(ValueError, match=r"(singular|zeros on the diagonal).*use a ridge above 0"):
        fit(cls("S1", ridge=0.0, solver=solver, fit_intercept=False), X)


def test_the_message_tells_the_rank():
    X = CASE.X.copy()
    X[:, [1, 4]] = 0
    with pytest.raises(ValueError, match=r"Q is singular \(rank 4 of 6\)"):
        fit(MDA("S1", ridge=0.0), X)


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.empty((0, 6)), "0 sample"),
        (np.empty((64, 0)), "0 feature"),
        (np.full((64, 2), "a", dtype=object), "could not convert|must be"),
        (np.arange(64.0), "Expected 2D array"),
        (CASE.X + 1j, "Complex data not supported"),
    ],
)
def test_shapes_and_types_of_rows(cls, X, message):
    with pytest.raises(ValueError, match=message):
        fit(cls(), X)


@pytest.mark.parametrize("cls", ALL)
def test_before_fit(cls):
    with pytest.raises(NotFittedError):
        (cls().transform if cls is MDA else cls().predict)(CASE.X)


def test_dscm_parameters():
    for temperature in (0, -1.0, np.nan):
        with pytest.raises(ValueError, match="temperature must be above 0"):
            fit(DSCM(temperature=temperature))
    with pytest.raises(
        ValueError, match="domain_weights names domain 7, which has no labelled rows"
    ):
        fit(DSCM(domain_weights={7: 1.0}))
    with pytest.raises(ValueError, match=r"domain_weights\[0\] must be above 0"):
        fit(DSCM(domain_weights={0: 0.0}))


def test_any_y_for_transformers_that_do_not_read_it():
    """scikit-learn's transformers accept and ignore y."""
    plain = MDA("S1").fit(CASE.X, sample_domain=CASE.domain)
    for y in (np.linspace(0, 1, 64), np.zeros(64), None):
        model = MDA("S1").fit(CASE.X, y, sample_domain=CASE.domain)
        np.testing.assert_array_equal(model.W_, plain.W_)


def test_scoring_needs_labels():
    model = fitted(MDAClassifier(), CASE)
    with pytest.raises(ValueError, match="no row of y carries a label"):
        model.score(CASE.X, np.full(64, -1))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.score(CASE.X, CASE.codes[:50])


@pytest.mark.parametrize("name", ["fit_intercept", "concatenate", "normalize", "center"])
def test_text_is_neither_yes_nor_no(name):
    with pytest.raises(ValueError, match=f"{name} must be True or False, got 'no'"):
        fit(MDAClassifier(**{name: "no"}))
