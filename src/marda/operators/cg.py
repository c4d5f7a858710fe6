"""Preconditioned conjugate gradients on blocks of columns."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

__all__ = ["conjugate_gradients"]

Matrix = NDArray[np.float64]


def conjugate_gradients(
    apply: Callable[[Matrix], Matrix],
    B: Matrix,
    precondition: Callable[[Matrix], Matrix],
    *,
    x0: Matrix | None = None,
    tol: float = 1e-12,
    max_iter: int = 2000,
    coupled: bool = False,
    name: str = "the system",
) -> Matrix:
    """Solve A X = B for symmetric positive definite A.

    Parameters
    ----------
    apply, precondition : callables
        V ↦ A V, and R ↦ M⁻¹R for an approximation M of A.
    B : array of shape (n, c)
        Right-hand sides.
    x0 : array of shape (n, c), default=None
        Where to start.
    tol : float, default=1e-12
        Stop when the residual of every column is below tol times its right-hand side.
    max_iter : int, default=2000
        Iterations at most; a ConvergenceWarning tells if they did not suffice.
    coupled : bool, default=False
        A mixes columns: they share their step lengths. Otherwise every column has its own.
    name : str
        For the warning.

    Returns
    -------
    X : array of shape (n, c)
    """

    def inner(A: Matrix, C: Matrix) -> Matrix:
        products = np.einsum("ij,ij->j", A, C)
        return np.full_like(products, products.sum()) if coupled else products

    X = np.zeros_like(B) if x0 is None else x0.copy()
    R = B.copy() if x0 is None else B - apply(X)
    goal = tol**2 * inner(B, B)
    Z = precondition(R)
    direction = Z.copy()
    rz = inner(R, Z)
    for _ in range(max_iter):
        if (inner(R, R) <= goal).all():
            return X
        image = apply(direction)
        curvature = inner(direction, image)
        # A finished column has no direction left: its step is zero, not 0/0.
        step = np.divide(rz, curvature, out=np.zeros_like(rz), where=curvature > 0)
        X += step * direction
        R -= step * image
        Z = precondition(R)
        rz_new = inner(R, Z)
        direction *= np.divide(rz_new, rz, out=np.zeros_like(rz), where=rz > 0)
        direction += Z
        rz = rz_new
    reached = float(np.sqrt((inner(R, R) / np.maximum(inner(B, B), 1e-300)).max()))
    if reached > 100 * tol:
        warnings.warn(
            f"conjugate gradients on {name} stopped after {max_iter} iterations at a relative "
            f"residual of {reached:.1e} (wanted {tol:.1e}): use a larger ridge, or another solver.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return X
