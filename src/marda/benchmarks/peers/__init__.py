"""What marda is compared with: systems of others that run here.

================  ===========================  ====================================================
system            module                       paper
================  ===========================  ====================================================
GFK               ``projections``              Gong, Shi, Sha, Grauman: CVPR 2012
TCA               ``projections`` (``JDA``)    Pan, Tsang, Kwok, Yang: TNN 2011
JDA               ``projections``              Long, Wang, Ding, Sun, Yu: ICCV 2013
TTM               ``projections``              Farajidavar, de Campos, Kittler: ACCV 2014
EasyTL            ``pseudo_labelling``         Wang, Chen, Yu, Huang, Yang: ICME 2019
MEDA              ``pseudo_labelling``         Wang, Feng, Chen, Yu, Huang, Yu: ACM MM 2018
SPL               ``pseudo_labelling``         Wang, Breckon: AAAI 2020
CMMS              ``pseudo_labelling``         Tian, Tang, Hu, Ren, Zhang: TIP 2020
auxiliary         ``support_vectors``          Duan, Tsang, Xu, Chua: ICML 2009
DA-SVM            ``support_vectors``          Bruzzone, Marconcini: TPAMI 2010
MMDT              ``support_vectors``          Hoffman, Rodner, Donahue, Darrell, Saenko: ICLR 2013
DANN              ``networks``                 Ganin et al.: JMLR 2016
DDC               ``networks``                 Tzeng, Hoffman, Zhang, Saenko, Darrell: 2014
DAN               ``networks``                 Long, Cao, Wang, Jordan: ICML 2015
CORAL, SA, OT     ``adapters`` (skada)         as skada names them
================  ===========================  ====================================================

The systems are written from their papers, as scikit-learn estimators with ``sample_domain``;
`system` makes them by name, each with one setting for all data: the authors' where they name one.
"""

from __future__ import annotations

from typing import Any

__all__ = ["SYSTEM_NOTES", "system"]

SYSTEM_NOTES = (
    "GFK, TCA, JDA, TTM, EasyTL, MEDA, SPL, CMMS, auxiliary classifiers, DA-SVM, MMDT, DANN, DDC "
    "and DAN are our own, written from their papers, with one setting for all data; TCA is the "
    "first step of JDA (linear), TTM lacks one of its steps, and DANN, DDC and DAN are networks of "
    "one hidden layer on these features, not on pixels. They see the same rows as the adapters and "
    "no target label, but for MMDT, which runs only where there are some (SS).",
)


def system(name: str) -> Any:
    """A new estimator; ``fit`` takes ``sample_domain``.

    Examples
    --------
    >>> import numpy as np
    >>> from marda import pack
    >>> from marda.benchmarks.peers import system
    >>> Xs = np.array([[4.0, 0.0], [5.0, 1.0], [0.0, 4.0], [1.0, 5.0]])
    >>> Xt = np.array([[6.0, 2.0], [2.0, 6.0]])
    >>> X, y, sample_domain = pack(Xs, ["ham", "ham", "egg", "egg"], Xt)
    >>> system("TCA").fit(X, y, sample_domain=sample_domain).predict(Xt).tolist()
    ['ham', 'egg']
    """
    from marda.benchmarks.peers import networks, projections, pseudo_labelling, support_vectors

    if name == "TCA":
        return projections.JDA(n_iter=1)
    known = {
        "GFK": projections.GFK,
        "JDA": projections.JDA,
        "TTM": projections.TTM,
        "EasyTL": pseudo_labelling.EasyTL,
        "MEDA": pseudo_labelling.MEDA,
        "SPL": pseudo_labelling.SPL,
        "CMMS": pseudo_labelling.CMMS,
        "auxiliary": support_vectors.AuxiliaryClassifiers,
        "DA-SVM": support_vectors.DASVM,
        "MMDT": support_vectors.MMDT,
        "DANN": networks.DANN,
        "DDC": networks.DDC,
        "DAN": networks.DAN,
    }
    return known[name]()
