"""The paper's figures (accuracies in percent) and its claims, as data.

Csurka, Chidlovskii, Clinchant, Michel: An Extended Framework for Marginalized Domain Adaptation
(2017). Image figures were made with DeCAF6 features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_COLUMNS: Final = (
    ("oc10", "nn"),
    ("oc10", "dscm"),
    ("oc10", "ridge"),
    ("off31", "nn"),
    ("off31", "dscm"),
    ("off31", "ridge"),
    ("amt", "ridge"),
)
_TABLES: Final[dict[str, dict[str, tuple[float, ...]]]] = {
    "us": {  # table 2
        "BL": (84.5, 78.7, 82.6, 65.2, 61.6, 62.8, 76.7),
        "S1": (85.2, 79.9, 84.0, 65.9, 62.1, 66.5, 81.6),
        "S1D": (84.9, 80.9, 85.6, 65.8, 62.6, 67.1, 82.2),
        "J12": (84.4, 82.3, 82.3, 67.7, 65.0, 65.0, 76.0),
        "J12D": (82.8, 83.2, 83.4, 64.4, 65.2, 65.5, 76.0),
    },
    "sup": {  # table 3
        "BL": (90.8, 91.6, 88.1, 77.6, 76.6, 70.3, 77.3),
        "S1": (90.6, 92.1, 89.7, 77.2, 76.2, 72.1, 78.4),
        "S1D": (89.8, 91.6, 89.0, 76.7, 75.9, 71.9, 74.3),
        "S1C": (90.7, 92.0, 90.1, 76.8, 77.0, 72.7, 78.4),
        "J12": (90.7, 92.0, 90.1, 79.1, 80.7, 78.0, 71.1),
        "J12D": (90.7, 90.1, 89.9, 79.1, 80.6, 78.0, 71.1),
        "J12C": (92.1, 92.1, 91.1, 80.8, 80.7, 78.1, 73.9),
    },
    "ss": {  # table 4
        "BL": (90.8, 91.6, 88.1, 77.6, 76.6, 70.3, 77.3),
        "S1": (91.1, 91.9, 90.4, 78.4, 76.9, 74.6, 82.4),
        "S1D": (91.2, 91.9, 90.7, 78.1, 77.3, 74.5, 82.7),
        "S1C": (91.3, 92.1, 90.4, 78.5, 77.6, 74.5, 82.4),
        "J12": (92.3, 91.8, 89.1, 80.8, 80.5, 74.7, 76.6),
        "J12D": (87.9, 89.8, 89.1, 80.8, 80.4, 74.7, 76.6),
        "J12C": (92.1, 91.6, 89.1, 80.8, 80.2, 74.9, 76.6),
    },
}
SURF_J12C_DSCM: Final = 55.8
SURF_QUOTED: Final = {"GFK": 48.6, "SA": 53.6, "MMDT": 52.5}
S1M_QUOTED: Final = 86.5
"""S1M on OC10, US: in the text only, without naming the classifier."""

OFF31_TASKS: Final = (
    "amazon-webcam",
    "dslr-webcam",
    "webcam-dslr",
    "dslr-amazon",
    "webcam-amazon",
    "amazon-dslr",
)
OFF31_OURS: Final[dict[tuple[str, str], tuple[float | None, ...]]] = {
    ("J12", "nn"): (50.5, 94.3, 98.0, 46.4, 42.8, 53.8, 64.3),
    ("S1D", "ridge"): (53.9, 91.2, 95.1, 47.3, 49.0, 55.5, 65.3),
}
OFF31_QUOTED: Final[dict[str, tuple[float | None, ...]]] = {
    "GFK+SVM": (37.8, 81.0, 86.9, 34.8, 31.4, 44.8, 49.1),
    "SA+SVM": (35.0, 74.5, 81.5, 32.3, 30.1, 41.3, 49.1),
    "TCA+SVM": (36.8, 82.3, 84.1, 32.9, 28.9, 40.6, 50.9),
    "CORAL+SVM": (48.4, 96.5, 99.2, 44.4, 41.9, 53.7, 64.0),
    "DDC": (59.4, 92.5, 91.7, 52.1, 52.2, 64.4, 68.7),
    "RGrad": (67.3, 94.0, 93.7, None, None, None, None),
    "DAN": (68.5, 96.0, 99.0, 54.0, 53.1, 67.0, 72.9),
}
"""Six tasks in the order of ``OFF31_TASKS``, then the mean as printed."""


def paper_figure(table: str, dataset: str | None, model: str, classifier: str) -> float | None:
    """Return the printed accuracy, or None where the paper has no such cell.

    Its ridge stands next to every reading of it (``ridge10``: an ordinary ridge of weight 10).
    """
    if classifier.startswith("ridge"):
        classifier = "ridge"
    if table == "surf":
        return SURF_J12C_DSCM if (model, classifier) == ("J12C", "dscm") else None
    if (dataset, classifier) not in _COLUMNS or model not in _TABLES[table]:
        return None
    return _TABLES[table][model][_COLUMNS.index((dataset, classifier))]


# Claims -------------------------------------------------------------------------------------------

HARMLESS = 0.2
"""Percentage points that a term may cost and still be called harmless."""


@dataclass(frozen=True)
class PaperClaim:
    """Comparisons of two models: the first minus the second lies above ``threshold``."""

    statement: str
    comparisons: tuple[tuple[str, str], ...]
    benchmarks: tuple[str, ...]
    settings: tuple[str, ...]
    classifiers: tuple[str, ...]
    threshold: float = 0.0
    strict: bool = True


_ALL, _IMAGES = ("oc10", "off31", "amt"), ("oc10", "off31")
CLAIMS = (
    PaperClaim(
        "MDA improves the ridge baseline (S1 > BL)", (("S1", "BL"),), _ALL, ("US",), ("ridge",)
    ),
    PaperClaim(
        "the domain predictor does not hurt ridge (S1D ≥ S1)",
        (("S1D", "S1"),),
        _ALL,
        ("US",),
        ("ridge",),
        strict=False,
    ),
    PaperClaim(
        "on text, J12's own Z is worse than S1's (S1 > J12)",
        (("S1", "J12"),),
        ("amt",),
        ("US",),
        ("ridge",),
    ),
    PaperClaim(
        "with target labels, J12 improves nn and dscm on images (J12 > S1)",
        (("J12", "S1"),),
        _IMAGES,
        ("SUP", "SS"),
        ("nn", "dscm"),
    ),
    PaperClaim(
        f"the class term helps or is harmless in SUP (costs at most {HARMLESS})",
        (("S1C", "S1"), ("J12C", "J12")),
        _ALL,
        ("SUP",),
        ("nn", "dscm", "ridge"),
        threshold=-HARMLESS,
        strict=False,
    ),
)
