"""Many noise levels, and many candidates, from few factorisations."""

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
