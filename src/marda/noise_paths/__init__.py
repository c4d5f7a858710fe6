"""Many noise levels, and many candidates, from few factorisations.

`path` has the public maps of S1 (one eigendecomposition for all levels); `candidates` the scores of
a search, through `eigenbasis` (at least as many rows as features: one eigendecomposition) or
`row_space` (fewer: n×n factors, shared by the candidates of a level); `levels` what both read, and
their checks.
"""

from marda.noise_paths.candidates import SHARED, PathCandidates, on_path, path_bytes
from marda.noise_paths.path import NoisePath, NoisePathMap, noise_path

__all__ = [
    "SHARED",
    "NoisePath",
    "NoisePathMap",
    "PathCandidates",
    "noise_path",
    "on_path",
    "path_bytes",
]
