"""Accuracies that SKADA-Bench published.

Lalou et al.: SKADA-Bench: benchmarking unsupervised domain adaptation methods with realistic
validation on diverse modalities, TMLR 2025 (arXiv:2407.11676). Accuracy in percent, mean over
splits and pairs, every method with its hyperparameters chosen by its best scorer that needs no
target label. "Train Src" knows the source only; "Train Tgt" sees the target's labels and is an
upper bound.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SKADA", "SKADA_COLUMNS", "SOURCE_ONLY", "UPPER_BOUND", "skada_best", "skada_figure"]

SKADA_COLUMNS: Final = (
    *("20newsgroups", "amazon_review", "bci", "mnistusps", "mushrooms", "office31", "officehome"),
    *("phishing", "concept_drift", "covariate_shift", "subspace", "target_shift"),
)
SKADA: Final[dict[str, tuple[str, tuple[float | None, ...]]]] = {
    "Train Tgt": (
        "supervised",
        (99.6, 72.9, 63.5, 95.7, 100.0, 88.9, 79.7, 96.8, 81.7, 91.5, 98.5, 93.2),
    ),
    "DASVM": (
        "circular_validation",
        (71.6, None, None, None, 77.9, None, None, 87.7, 65.6, 88.8, 11.2, 86.0),
    ),
    "LinOT": (
        "circular_validation",
        (81.5, 69.9, 61.1, 63.8, 76.1, 65.6, 57.5, 90.8, 75.8, 73.4, 17.5, 72.7),
    ),
    "SA": (
        "circular_validation",
        (88.0, 66.5, 52.7, 56.2, 88.4, 64.4, 57.0, 89.3, 80.1, 74.2, 10.9, 67.5),
    ),
    "CORAL": (
        "circular_validation",
        (72.5, 69.7, 61.8, 62.3, 71.6, 65.4, 57.2, 91.9, 75.7, 74.1, 17.9, 69.9),
    ),
    "ClassRegOT": (
        "importance_weighted",
        (96.4, 67.7, 52.0, 61.7, 81.9, 64.8, 53.3, None, 81.5, 74.2, 11.3, 58.1),
    ),
    "MMD-LS": (
        "importance_weighted",
        (75.0, 68.3, 56.2, 52.2, 88.3, 61.2, 52.2, 88.1, 69.7, 88.1, 18.6, 76.9),
    ),
    "EntOT": (
        "circular_validation",
        (82.9, 62.0, 54.0, 60.3, 74.6, 64.0, 58.0, 85.7, 81.7, 70.7, 12.0, 59.6),
    ),
    "JPCA": (
        "prediction_entropy",
        (77.1, 68.9, 54.2, 51.3, 78.4, 61.9, 47.5, 90.4, 66.2, 88.1, 15.5, 85.0),
    ),
    "Train Src": (
        "supervised",
        (59.2, 70.3, 55.2, 54.2, 72.3, 64.9, 55.8, 91.2, 66.2, 88.1, 19.0, 85.0),
    ),
    "KLIEP": (
        "importance_weighted",
        (59.2, 70.1, 54.8, 54.1, 72.3, 64.5, 55.8, 91.2, 65.6, 88.5, 19.1, 85.7),
    ),
    "MMDTarS": (
        "importance_weighted",
        (59.3, 70.2, 55.5, 54.1, 73.6, 59.4, 55.2, 91.3, 64.2, 87.7, 19.8, 86.5),
    ),
    "Disc. RW": (
        "circular_validation",
        (60.1, 68.4, 56.4, 49.7, 75.5, 63.5, 53.4, 91.0, 71.4, 84.8, 17.6, 82.8),
    ),
    "Dens. RW": (
        "importance_weighted",
        (58.4, 70.2, 54.8, 53.9, 71.5, 61.8, 55.2, 91.1, 65.7, 88.5, 17.5, 86.0),
    ),
    "NN RW": (
        "circular_validation",
        (59.4, 66.4, 53.5, 54.2, 70.7, 64.5, 55.4, 91.4, 66.7, 88.5, 14.9, 85.6),
    ),
    "KMM": (
        "circular_validation",
        (69.9, 57.3, 51.8, 52.4, 73.8, 63.8, 54.6, 91.4, 64.5, 89.0, 15.7, 84.9),
    ),
    "OTLabelProp": (
        "circular_validation",
        (85.5, 67.6, 50.1, 61.8, 64.3, 65.6, 53.4, None, 80.3, 72.5, 7.3, 59.5),
    ),
    "MapOT": (
        "prediction_entropy",
        (76.3, 67.6, 47.1, 61.2, 63.4, 59.6, 51.0, 83.9, 81.6, 71.8, 2.0, 57.4),
    ),
    "JDOT": (
        "circular_validation",
        (77.0, 67.2, 46.3, 63.2, None, 64.1, 53.4, None, 81.7, 71.8, 13.1, 58.0),
    ),
    "TSL": (
        "importance_weighted",
        (None, 70.3, 25.1, None, None, 64.9, None, None, 65.9, 88.1, 19.7, 84.7),
    ),
    "Gauss. RW": (
        "circular_validation",
        (53.6, 60.6, 24.7, 11.1, 51.1, 22.0, 44.1, 45.9, 64.9, 89.1, 20.7, 86.3),
    ),
    "TCA": (
        "circular_validation",
        (None, 60.7, 26.7, 10.1, 44.9, 3.7, 2.0, None, 52.3, 45.3, 48.0, 47.9),
    ),
}
"""Scorer, then figures in the order of ``SKADA_COLUMNS``; None where none was published."""
SOURCE_ONLY, UPPER_BOUND = "Train Src", "Train Tgt"


def skada_figure(method: str, family: str) -> float | None:
    """Return the published accuracy, or None where there is none."""
    if method not in SKADA or family not in SKADA_COLUMNS:
        return None
    return SKADA[method][1][SKADA_COLUMNS.index(family)]


def skada_best(family: str) -> tuple[str, float] | None:
    """The method with the best published accuracy, of those that adapt; the first of equal ones."""
    found = [
        (method, figure)
        for method in SKADA
        if method not in (SOURCE_ONLY, UPPER_BOUND)
        if (figure := skada_figure(method, family)) is not None
    ]
    return max(found, key=lambda item: item[1], default=None)
