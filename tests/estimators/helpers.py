"""What the estimator tests share."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from marda import MDAClassifier
from problems import Case


def fitted(estimator, case: Case, X=None):
    """Fit, whether or not an alternation was cut short on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(case.X if X is None else X, case.codes, sample_domain=case.domain)


def classifier(method, **options) -> MDAClassifier:
    """A joint model takes three alternations, so that runs are comparable step by step."""
    return MDAClassifier(method, **{"max_iter": 3, "tol": 0.0, **options})


def scores(model, X) -> np.ndarray:
    """One column a class, or the single one."""
    return np.asarray(model.decision_function(X))
