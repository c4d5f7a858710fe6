"""Published accuracies in percent as data: the paper's, with its claims, and SKADA-Bench's.

Csurka, Chidlovskii, Clinchant, Michel: An Extended Framework for Marginalized Domain Adaptation
(2017). Image figures were made with DeCAF6 features.

Lalou et al.: SKADA-Bench: benchmarking unsupervised domain adaptation methods with realistic
validation on diverse modalities, TMLR 2025 (arXiv:2407.11676). Means over splits and pairs, every
method with its hyperparameters chosen by its best scorer that needs no target label. "Train Src"
knows the source only; "Train Tgt" sees the target's labels and is an upper bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
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
SURF_QUOTED: Final[dict[str, float | None]] = {"GFK": 48.6, "SA": 53.6, "MMDT": 52.5}
OC10_QUOTED: Final[dict[str, float | None]] = {
    "DA-SVM": 70.3,
    "auxiliary": 84.0,
    "JDA": 87.5,
    "TTM": 87.5,
}
AMT_QUOTED: Final[dict[str, float | None]] = {"DANN": None}
"""The text calls S1D (82.2) similar to DANN and prints no figure of it."""
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
OFF31_PRINTED: Final[dict[tuple[str, str], tuple[float | None, ...]]] = {
    ("J12", "nn"): (50.5, 94.3, 98.0, 46.4, 42.8, 53.8, 64.3),
    ("S1D", "ridge"): (53.9, 91.2, 95.1, 47.3, 49.0, 55.5, 65.3),
}
"""The paper's own models ("ours" in the paper), as its Table 5 prints them."""
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


def quoted(table: str, dataset: str | None) -> dict[str, float | None]:
    """Systems of others that the text compares with, by name; None where it has no figure.

    Their classifiers are their own. Those of Table 5 are in ``OFF31_QUOTED``, task by task.
    """
    if table == "surf":
        return SURF_QUOTED
    known = {("us", "oc10"): OC10_QUOTED, ("us", "amt"): AMT_QUOTED}
    return known.get((table, dataset or ""), {})


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
    others: tuple[str, ...] = ()
    """Classifiers of the second model; none: that of the first."""

    def cells(self) -> Iterator[tuple[str, str, tuple[str, str], tuple[str, str]]]:
        """Setting, data set, and (model, classifier) of both sides, one per comparison."""
        for setting, name, first in product(self.settings, self.benchmarks, self.classifiers):
            for second in self.others or (first,):
                for model, other in self.comparisons:
                    yield setting, name, (model, first), (other, second)

    def holds(self, difference: float) -> bool:
        """Whether a difference is as the claim has it."""
        return difference > self.threshold if self.strict else difference >= self.threshold

    def printed(self) -> tuple[int, int]:
        """How many of the comparisons that the paper's own tables allow hold in them."""
        held = []
        for setting, name, first, second in self.cells():
            figures = [paper_figure(setting.lower(), name, *side) for side in (first, second)]
            if figures[0] is not None and figures[1] is not None:
                held.append(self.holds(round(figures[0] - figures[1], 1)))
        return sum(held), len(held)


_ALL, _IMAGES, _TEXT = ("oc10", "off31", "amt"), ("oc10", "off31"), ("amt",)
_US, _SUP, _SS = ("US",), ("SUP",), ("SS",)
_RIDGE, _NN, _DSCM, _EVERY = ("ridge",), ("nn",), ("dscm",), ("nn", "dscm", "ridge")
SIMILAR = 0.5
"""Points that may lie between what is called similar."""


def _claim(
    statement: str,
    comparisons: str,
    benchmarks: tuple[str, ...],
    settings: tuple[str, ...],
    classifiers: tuple[str, ...],
    at_least: float | None = None,
    others: tuple[str, ...] = (),
) -> PaperClaim:
    """``"S1>BL J12>S1"``: the first of each is above the second, or ``at_least`` so much above."""
    pairs = tuple((a, b) for a, b in (pair.split(">") for pair in comparisons.split()))
    strict = at_least is None
    return PaperClaim(
        statement, pairs, benchmarks, settings, classifiers, at_least or 0.0, strict, others
    )


CLAIMS = (
    _claim("MDA improves the ridge baseline (S1 > BL)", "S1>BL", _ALL, _US, _RIDGE),
    _claim("the domain predictor does not hurt ridge (S1D ≥ S1)", "S1D>S1", _ALL, _US, _RIDGE, 0.0),
    _claim("on text, J12's own Z is worse than S1's (S1 > J12)", "S1>J12", _TEXT, _US, _RIDGE),
    _claim(
        "with target labels, J12 improves nn and dscm on images (J12 > S1)",
        "J12>S1",
        _IMAGES,
        ("SUP", "SS"),
        ("nn", "dscm"),
    ),
    _claim(
        f"the class term helps or is harmless in SUP (costs at most {HARMLESS})",
        "S1C>S1 J12C>J12",
        _ALL,
        _SUP,
        _EVERY,
        -HARMLESS,
    ),
    # Unsupervised.
    _claim("MDA improves nn and dscm on images (S1 > BL)", "S1>BL", _IMAGES, _US, ("nn", "dscm")),
    _claim(
        "on text, ridge is the best classifier of denoised rows",
        "S1>S1 S1D>S1D",
        _TEXT,
        _US,
        _RIDGE,
        others=("nn", "dscm"),
    ),
    _claim(
        "on images, nn is the best classifier of denoised rows",
        "S1>S1 S1D>S1D",
        _IMAGES,
        _US,
        _NN,
        others=("dscm", "ridge"),
    ),
    _claim("the domain predictor improves dscm (S1D > S1)", "S1D>S1", _IMAGES, _US, _DSCM),
    _claim("the domain predictor does not improve nn (S1 ≥ S1D)", "S1>S1D", _IMAGES, _US, _NN, 0.0),
    _claim("learning Z with W degrades ridge (S1 > J12)", "S1>J12", _ALL, _US, _RIDGE),
    _claim("learning Z with W improves dscm (J12 > S1)", "J12>S1", _IMAGES, _US, _DSCM),
    _claim("S1D is above S1 and J12 whatever the classifier", "S1D>S1 S1D>J12", _ALL, _US, _EVERY),
    _claim("J12 outperforms S1 whatever the classifier", "J12>S1", _ALL, _US, _EVERY),
    # Supervised.
    _claim("the domain predictor harms in SUP (S1 > S1D)", "S1>S1D", _ALL, _SUP, _EVERY),
    _claim("the class term improves S1 in SUP (S1C > S1)", "S1C>S1", _ALL, _SUP, _EVERY),
    _claim(
        "learning Z with W improves results on images in SUP (J12 > S1)",
        "J12>S1",
        _IMAGES,
        _SUP,
        _EVERY,
    ),
    _claim("it does not on text (S1 > J12), SUP", "S1>J12", _TEXT, _SUP, _RIDGE),
    _claim(
        f"J12 and J12D are similar in SUP (within {SIMILAR})",
        "J12>J12D J12D>J12",
        _ALL,
        _SUP,
        _EVERY,
        -SIMILAR,
    ),
    _claim("J12C is above J12 and J12D in SUP", "J12C>J12 J12C>J12D", _ALL, _SUP, _EVERY),
    _claim(
        "other classifiers on J12's rows are above its own Z in SUP",
        "J12>J12 J12C>J12C",
        _IMAGES,
        _SUP,
        ("nn", "dscm"),
        others=_RIDGE,
    ),
    # Semi-supervised.
    _claim(
        f"with unlabelled rows, domain and class terms cost S1 at most {HARMLESS} (SS)",
        "S1D>S1 S1C>S1",
        _ALL,
        _SS,
        _EVERY,
        -HARMLESS,
    ),
    _claim(
        f"learning Z with W costs at most {HARMLESS} on images (SS)",
        "J12>S1",
        _IMAGES,
        _SS,
        _EVERY,
        -HARMLESS,
    ),
    _claim("on text it costs much (S1 > J12), SS", "S1>J12", _TEXT, _SS, _RIDGE),
    _claim("the domain predictor decreases J12 (J12 > J12D), SS", "J12>J12D", _ALL, _SS, _EVERY),
    _claim(
        "the class term is less harmful to J12 than that (J12C ≥ J12D), SS",
        "J12C>J12D",
        _ALL,
        _SS,
        _EVERY,
        0.0,
    ),
    _claim(
        "J12 with nn is above all sequential models on images (SS)",
        "J12>S1 J12>S1D J12>S1C",
        _IMAGES,
        _SS,
        _NN,
    ),
    _claim(
        "on text, S1D is the best model (SS)",
        "S1D>S1 S1D>S1C S1D>J12 S1D>J12C",
        _TEXT,
        _SS,
        _RIDGE,
    ),
)
"""Claims of the paper's text, in our words."""

# SKADA-Bench --------------------------------------------------------------------------------------

SKADA_COLUMNS: Final = (
    *("20newsgroups", "amazon_review", "bci", "mnistusps", "mushrooms", "office31", "officehome"),
    *("phishing", "concept_drift", "covariate_shift", "subspace", "target_shift"),
)
SKADA: Final[dict[str, tuple[float | None, ...]]] = {
    "Train Tgt":   (99.6, 72.9, 63.5, 95.7, 100.0, 88.9, 79.7, 96.8, 81.7, 91.5, 98.5, 93.2),
    "DASVM":       (71.6, None, None, None, 77.9, None, None, 87.7, 65.6, 88.8, 11.2, 86.0),
    "LinOT":       (81.5, 69.9, 61.1, 63.8, 76.1, 65.6, 57.5, 90.8, 75.8, 73.4, 17.5, 72.7),
    "SA":          (88.0, 66.5, 52.7, 56.2, 88.4, 64.4, 57.0, 89.3, 80.1, 74.2, 10.9, 67.5),
    "CORAL":       (72.5, 69.7, 61.8, 62.3, 71.6, 65.4, 57.2, 91.9, 75.7, 74.1, 17.9, 69.9),
    "ClassRegOT":  (96.4, 67.7, 52.0, 61.7, 81.9, 64.8, 53.3, None, 81.5, 74.2, 11.3, 58.1),
    "MMD-LS":      (75.0, 68.3, 56.2, 52.2, 88.3, 61.2, 52.2, 88.1, 69.7, 88.1, 18.6, 76.9),
    "EntOT":       (82.9, 62.0, 54.0, 60.3, 74.6, 64.0, 58.0, 85.7, 81.7, 70.7, 12.0, 59.6),
    "JPCA":        (77.1, 68.9, 54.2, 51.3, 78.4, 61.9, 47.5, 90.4, 66.2, 88.1, 15.5, 85.0),
    "Train Src":   (59.2, 70.3, 55.2, 54.2, 72.3, 64.9, 55.8, 91.2, 66.2, 88.1, 19.0, 85.0),
    "KLIEP":       (59.2, 70.1, 54.8, 54.1, 72.3, 64.5, 55.8, 91.2, 65.6, 88.5, 19.1, 85.7),
    "MMDTarS":     (59.3, 70.2, 55.5, 54.1, 73.6, 59.4, 55.2, 91.3, 64.2, 87.7, 19.8, 86.5),
    "Disc. RW":    (60.1, 68.4, 56.4, 49.7, 75.5, 63.5, 53.4, 91.0, 71.4, 84.8, 17.6, 82.8),
    "Dens. RW":    (58.4, 70.2, 54.8, 53.9, 71.5, 61.8, 55.2, 91.1, 65.7, 88.5, 17.5, 86.0),
    "NN RW":       (59.4, 66.4, 53.5, 54.2, 70.7, 64.5, 55.4, 91.4, 66.7, 88.5, 14.9, 85.6),
    "KMM":         (69.9, 57.3, 51.8, 52.4, 73.8, 63.8, 54.6, 91.4, 64.5, 89.0, 15.7, 84.9),
    "OTLabelProp": (85.5, 67.6, 50.1, 61.8, 64.3, 65.6, 53.4, None, 80.3, 72.5,  7.3, 59.5),
    "MapOT":       (76.3, 67.6, 47.1, 61.2, 63.4, 59.6, 51.0, 83.9, 81.6, 71.8,  2.0, 57.4),
    "JDOT":        (77.0, 67.2, 46.3, 63.2, None, 64.1, 53.4, None, 81.7, 71.8, 13.1, 58.0),
    "TSL":         (None, 70.3, 25.1, None, None, 64.9, None, None, 65.9, 88.1, 19.7, 84.7),
    "Gauss. RW":   (53.6, 60.6, 24.7, 11.1, 51.1, 22.0, 44.1, 45.9, 64.9, 89.1, 20.7, 86.3),
    "TCA":         (None, 60.7, 26.7, 10.1, 44.9,  3.7,  2.0, None, 52.3, 45.3, 48.0, 47.9),
}  # fmt: skip
"""Figures in the order of ``SKADA_COLUMNS``; None where none was published."""
SOURCE_ONLY, UPPER_BOUND = "Train Src", "Train Tgt"


def skada_figure(method: str, family: str) -> float | None:
    """Return the published accuracy, or None where there is none."""
    if method not in SKADA or family not in SKADA_COLUMNS:
        return None
    return SKADA[method][SKADA_COLUMNS.index(family)]


def skada_best(family: str) -> tuple[str, float] | None:
    """The method with the best published accuracy, of those that adapt; the first of equal ones."""
    found = [
        (method, figure)
        for method in SKADA
        if method not in (SOURCE_ONLY, UPPER_BOUND)
        if (figure := skada_figure(method, family)) is not None
    ]
    return max(found, key=lambda item: item[1], default=None)
