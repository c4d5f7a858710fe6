"""Choosing parameters: the noise path."""

from marda.selection.path import NoisePath, noise_path

__all__ = ["NoisePath", "noise_path"]
