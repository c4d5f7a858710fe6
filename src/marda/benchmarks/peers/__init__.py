"""What marda is compared with: systems that run here, and figures that others published.

====================  ==================================================================
``adapters``          skada's adapters, and classifiers that know no domains
``published``         accuracies of SKADA-Bench
``gfk``, ``jda``      geodesic flow kernel; joint distribution adaptation
``easytl``            aligned covariances, then a linear program
``meda``              manifold embedded distribution alignment
``spl``, ``cmms``     selective pseudo-labelling; class centroid matching
``auxiliary``         a target classifier that agrees with source classifiers
``projected``         what they share
====================  ==================================================================

The systems are written from their papers, as scikit-learn estimators with ``sample_domain``;
`system` makes them by name, each with one setting for all data: the authors' where they name one.
"""

from __future__ import annotations

from typing import Any

__all__ = ["SYSTEM_NOTES", "system"]

SYSTEM_NOTES = (
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
