"""Label-free evidence on a classifier for the target: pure functions of predictions and rows.

Nothing here reads a target label. Each function returns the quantity in its own units; the
scorers of `marda.selection` turn it so that higher is better.
"""

from marda.criteria.domains import (
    density_ratio,
    dev_risk,
    domain_hits,
    importance_weighted,
    proxy_a_distance,
)
from marda.criteria.neighbours import (
    Agreement,
    Neighbours,
    label_agreement,
    nearest_neighbours,
    neighbour_agreement,
)
from marda.criteria.predictions import (
    entropy,
    expected_calibration_error,
    mutual_information,
    soft_neighbourhood_density,
)

__all__ = [
    "Agreement",
    "Neighbours",
    "density_ratio",
    "dev_risk",
    "domain_hits",
    "entropy",
    "expected_calibration_error",
    "importance_weighted",
    "label_agreement",
    "mutual_information",
    "nearest_neighbours",
    "neighbour_agreement",
    "proxy_a_distance",
    "soft_neighbourhood_density",
]
