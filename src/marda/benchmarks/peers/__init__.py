"""What marda is compared with: systems that run here, and figures that others published.

================  ===========================  ====================================================
system            module                       paper
================  ===========================  ====================================================
GFK               ``projections``              Gong, Shi, Sha, Grauman: CVPR 2012
TCA               ``projections`` (``JDA``)    Pan, Tsang, Kwok, Yang: TNN 2011
JDA               ``projections``              Long, Wang, Ding, Sun, Yu: ICCV 2013
EasyTL            ``pseudo_labelling``         Wang, Chen, Yu, Huang, Yang: ICME 2019
MEDA              ``pseudo_labelling``         Wang, Feng, Chen, Yu, Huang, Yu: ACM MM 2018
SPL               ``pseudo_labelling``         Wang, Breckon: AAAI 2020
CMMS              ``pseudo_labelling``         Tian, Tang, Hu, Ren, Zhang: TIP 2020
auxiliary         ``support_vectors``          Duan, Tsang, Xu, Chua: ICML 2009
CORAL, SA, OT     ``adapters`` (skada)         as skada names them
SKADA-Bench       ``published``                accuracies of its methods
================  ===========================  ====================================================

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
    from marda.benchmarks.peers import projections, pseudo_labelling, support_vectors

    if name == "TCA":
        return projections.JDA(n_iter=1)
    known = {
        "GFK": projections.GFK,
        "JDA": projections.JDA,
        "EasyTL": pseudo_labelling.EasyTL,
        "MEDA": pseudo_labelling.MEDA,
        "SPL": pseudo_labelling.SPL,
        "CMMS": pseudo_labelling.CMMS,
        "auxiliary": support_vectors.AuxiliaryClassifiers,
    }
    return known[name]()
