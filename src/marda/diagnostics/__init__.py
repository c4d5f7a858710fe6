"""How far apart domains are, what looks wrong in the data, and whether to trust the result.

No target label is needed: all evidence comes from rows and predictions.
"""

from marda.diagnostics.diagnosis import (
    Diagnosis,
    Evidence,
    Finding,
    Gap,
    Picture,
    a_distance,
    checks_of,
    data_findings,
    denoise,
    diagnose,
    domain_accuracy,
    facts_of,
    gather,
    mmd,
    prediction_findings,
)
from marda.diagnostics.intervals import Interval
from marda.diagnostics.verdict import Change, Facts

__all__ = [
    "Change",
    "Diagnosis",
    "Evidence",
    "Facts",
    "Finding",
    "Gap",
    "Interval",
    "Picture",
    "a_distance",
    "checks_of",
    "data_findings",
    "denoise",
    "diagnose",
    "domain_accuracy",
    "facts_of",
    "gather",
    "mmd",
    "prediction_findings",
]
