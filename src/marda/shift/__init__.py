"""What differs between two domains, and the class prior of the one without labels."""

from marda.shift.class_prior import ClassPrior, adjust_probabilities, estimate_class_prior
from marda.shift.explain import KINDS, Explanation, Move, Shift, explain_shift

__all__ = [
    "KINDS",
    "ClassPrior",
    "Explanation",
    "Move",
    "Shift",
    "adjust_probabilities",
    "estimate_class_prior",
    "explain_shift",
]
