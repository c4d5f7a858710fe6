"""marda: marginalized domain adaptation in closed form."""

from marda._pack import pack, paper_settings
from marda.estimators import DSCM, MDA, MDAClassifier
from marda.moments import Moments
from marda.selection import noise_path

__all__ = [
    "DSCM",
    "MDA",
    "MDAClassifier",
    "Moments",
    "__version__",
    "noise_path",
    "pack",
    "paper_settings",
]

__version__ = "0.1.0"
