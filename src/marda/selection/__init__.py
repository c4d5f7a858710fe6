"""Choosing without target labels: `MDAClassifierCV`, and the label-free scorers it may use."""

from marda.noise_paths import NoisePath, noise_path
from marda.selection.classifier_cv import MDAClassifierCV
from marda.selection.scorers import (
    CRITERIA,
    Criterion,
    DeepEmbeddedScorer,
    ImportanceWeightedScorer,
    MutualInformationScorer,
    NeighbourAgreementScorer,
    PredictionEntropyScorer,
    ProxyADistanceScorer,
    ReverseValidationScorer,
    SoftNeighbourhoodDensityScorer,
    get_criterion,
)

__all__ = [
    "CRITERIA",
    "Criterion",
    "DeepEmbeddedScorer",
    "ImportanceWeightedScorer",
    "MDAClassifierCV",
    "MutualInformationScorer",
    "NeighbourAgreementScorer",
    "NoisePath",
    "PredictionEntropyScorer",
    "ProxyADistanceScorer",
    "ReverseValidationScorer",
    "SoftNeighbourhoodDensityScorer",
    "get_criterion",
    "noise_path",
]
