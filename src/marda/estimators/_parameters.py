"""Descriptions of the parameters that `MDA` and `MDAClassifier` share, written once."""

from __future__ import annotations

import inspect
from typing import TypeVar

__all__ = ["with_parameters"]

T = TypeVar("T")

_PARAMETERS = """\
method : str, default="S1D"
    Model: "BL" (ridge on the rows as they are), "MCF" (ridge under noise), "S1" (denoise) or
    "J12" (denoise and classify together), the last two followed by any of "M" (bring domain
    means together), "C" (bring class means together; needs labelled target rows) and "D"
    (make every row look like target to a domain predictor), such as "S1D" or "J12CD".
noise : float, array of shape (n_features,) or Noise, default=0.5
    Dropout probability in [0, 1), one a feature if an array, or a noise object.
ridge, ridge_class, ridge_domain : float, default=1e-2, 1.0, 1.0
    Penalties ω on ‖W‖², δ on ‖Z‖² and α on ‖z_D‖².
class_loss_weight, domain_loss_weight : float, default=1.0, 1.0
    Weights λ of the class term and γ of the domain terms.
marginalization : {"exact", "paper"}, default="exact"
    How noise enters the MMD terms: for entries dropped independently, or as the paper writes.
scaling : {"balanced", "paper", "relative"}, default="balanced"
    "balanced" multiplies the MMD terms by the number of rows, so that they are felt;
    "relative" makes every ridge and weight a fraction of the trace that it competes with, so
    that the units of the features do not matter.
fit_intercept : bool, default=True
    A bias column that noise leaves alone, and an intercept of the class predictor.
class_weight : None, "balanced" or dict, default=None
    Weights of labelled rows in the class predictor."""

_SHARED_TAIL = """\
n_layers : int, default=1
    Layers; above one, every layer denoises the activated output of the one before.
activation : {"tanh", "relu", "identity"}, default="tanh"
    Applied to the output of every layer if there are several.
concatenate : bool, default=True
    With several layers, features are the input and every layer's output side by side.
center : bool, default=False
    Subtract from denoised rows the mean of their own domain (all targets together; of a source
    with class_weight="balanced", the mean of its class means). Rows that come without a domain
    are taken for target rows.
normalize : bool, default=False
    Scale denoised rows to unit length, after centring.
solver : {"auto", "primal", "dual", "cg"}, default="auto"
    d×d matrices, n×n matrices, or conjugate gradients; "auto" estimates work and memory.
n_pivots : int, default=None
    Reconstruct only the features that are non-zero in the most rows.
max_iter, tol : int and float, default=100, 1e-5
    The alternation of joint models ends when the loss changes by less than tol, relatively.
unlabeled : default=-1
    Mark of unlabelled target rows; NaN and None mark too.
random_state : int, RandomState or None, default=None
    Draws the thirds of the source that are compared, and landmarks and samples of very many
    rows; passed to a classifier that has a random_state of its own and none set. None draws as
    0 does. No draw depends on the order of rows.
verbose : int, default=0
    Above 0, say which route is taken and how the alternation ended."""


def with_parameters(cls: type[T]) -> type[T]:
    """Fill the shared parameter descriptions into a class docstring."""
    if cls.__doc__:
        # Python 3.13 strips the indentation of docstrings when it compiles them, 3.11 does not.
        text = inspect.cleandoc(cls.__doc__)
        text = text.replace("{parameters}", _PARAMETERS)
        cls.__doc__ = text.replace("{more_parameters}", _SHARED_TAIL)
    return cls
