"""Choosing parameters: the noise path, and label-free scorers."""

from marda.selection.path import NoisePath, noise_path
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
