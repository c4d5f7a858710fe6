"""How far apart domains are, what looks wrong in the data, and whether to trust the result.

No target label is needed: all evidence comes from rows and predictions.
"""

from marda.diagnostics.diagnosis import a_distance, domain_accuracy, mmd

__all__ = ["a_distance", "domain_accuracy", "mmd"]
