"""Rows in, second moments out: all that the models need to know of the data."""

from marda.moments.accumulate import accumulate
from marda.moments.stats import Moments

__all__ = ["Moments", "accumulate"]
