"""The systems by name: one setting each, the authors' where they name one, for all data."""

from __future__ import annotations

from typing import Any

__all__ = ["NOTES", "system"]

NOTES = (
    "GFK, TCA, JDA, EasyTL, MEDA, SPL, CMMS and auxiliary classifiers are our own, from their "
    "papers, with one setting for all data; TCA is the first step of JDA (linear). They see the "
    "same rows as the adapters and no target label.",
)


def system(name: str) -> Any:
    """A new estimator; ``fit`` takes ``sample_domain``."""
    from marda.benchmarks.peers.auxiliary import AuxiliaryClassifiers
    from marda.benchmarks.peers.cmms import CMMS
    from marda.benchmarks.peers.easytl import EasyTL
    from marda.benchmarks.peers.gfk import GFK
    from marda.benchmarks.peers.jda import JDA
    from marda.benchmarks.peers.meda import MEDA
    from marda.benchmarks.peers.spl import SPL

    if name == "TCA":
        return JDA(n_iter=1)
    known = {"GFK": GFK, "JDA": JDA, "EasyTL": EasyTL, "MEDA": MEDA, "SPL": SPL, "CMMS": CMMS}
    return AuxiliaryClassifiers() if name == "auxiliary" else known[name]()
