"""scikit-learn estimators."""

from marda.estimators.classifier import MDAClassifier
from marda.estimators.dscm import DSCM
from marda.estimators.transformer import MDA

__all__ = ["DSCM", "MDA", "MDAClassifier"]
