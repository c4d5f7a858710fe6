"""marda: marginalized domain adaptation in closed form."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marda import datasets
    from marda._pack import pack, paper_settings
    from marda.adaptation.frames import adapt, check
    from marda.estimators import DSCM, MDA, MDAClassifier
    from marda.moments import Moments
    from marda.noise_paths import noise_path
    from marda.persist import load
    from marda.selection import MDAClassifierCV

__all__ = [
    "DSCM",
    "MDA",
    "MDAClassifier",
    "MDAClassifierCV",
    "Moments",
    "__version__",
    "adapt",
    "check",
    "datasets",
    "load",
    "noise_path",
    "pack",
    "paper_settings",
]

__version__ = "0.2.0"

# Public names load when they are first used: `marda --help` and worker processes that only read
# results do not wait for scikit-learn.
_HOMES = {
    "DSCM": "marda.estimators",
    "MDA": "marda.estimators",
    "MDAClassifier": "marda.estimators",
    "MDAClassifierCV": "marda.selection",
    "Moments": "marda.moments",
    "adapt": "marda.adaptation.frames",
    "check": "marda.adaptation.frames",
    "load": "marda.persist",
    "noise_path": "marda.noise_paths",  # not marda.noise_path: a module of that name would hide it
    "pack": "marda._pack",
    "paper_settings": "marda._pack",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    if name == "datasets":
        return import_module("marda.datasets")
    raise AttributeError(f"module 'marda' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
