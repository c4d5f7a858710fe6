"""Preconditioned conjugate gradients on blocks of columns.

The error is measured in the norm of the preconditioner, ‖r‖² = rᵀM⁻¹r: for a diagonal M it is the
same whatever units the unknowns have. A system that is not solved to the tolerance is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigvalsh_tridiagonal

from marda._linalg import InaccurateError

__all__ = ["Solved", "conjugate_gradients"]

Matrix = NDArray[np.float64]
SLACK = 100.0  # a residual this many times the tolerance is still taken


class Solved(NamedTuple):
    """The solution, and the condition number of M⁻¹A as far as the iteration saw it."""

    X: Matrix
    condition: float


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
) -> Solved:
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
        Iterations at most.
    coupled : bool, default=False
        A mixes columns: they share their step lengths. Otherwise every column has its own.
    name : str
        For the message.

    Returns
    -------
    Solved

    Raises
    ------
    InaccurateError
        If the residual stays above 100 times the tolerance, or is not a number.
    """

    def inner(A: Matrix, C: Matrix) -> Matrix:
        products = np.einsum("ij,ij->j", A, C)
        return np.full_like(products, products.sum()) if coupled else products

    X = np.zeros_like(B) if x0 is None else x0.copy()
    R = B.copy() if x0 is None else B - apply(X)
    Z = precondition(R)
    size = inner(B, Z if x0 is None else precondition(B))
    goal = tol**2 * size
    direction = Z.copy()
    rz = inner(R, Z)
    steps, ratios = [], []
    iterations = 0
    while (rz > goal).any() and iterations < max_iter and np.isfinite(rz).all():
        iterations += 1
        image = apply(direction)
        curvature = inner(direction, image)
        # A finished column has no direction left: its step is zero, not 0/0.
        step = np.divide(rz, curvature, out=np.zeros_like(rz), where=curvature > 0)
        X += step * direction
        R -= step * image
        Z = precondition(R)
        rz_new = inner(R, Z)
        ratio = np.divide(rz_new, rz, out=np.zeros_like(rz), where=rz > 0)
        direction *= ratio
        direction += Z
        rz = rz_new
        steps.append(step)
        ratios.append(ratio)
    reached = float(np.sqrt((np.abs(rz) / np.where(size > 0, size, 1)).max(initial=0.0)))
    if not reached <= SLACK * tol or not np.isfinite(size).all():
        raise InaccurateError(
            f"conjugate gradients on {name} stopped after {iterations} iterations at a relative "
            f"residual of {reached:.1e} (wanted {tol:.1e}): use a larger ridge, or another solver."
        )
    return Solved(X, _condition(np.array(steps), np.array(ratios)))


def _condition(steps: Matrix, ratios: Matrix) -> float:
    """Extreme eigenvalues of M⁻¹A from the Lanczos matrix that the steps and ratios make."""
    if not len(steps):
        return 1.0
    column = int(np.argmax((steps > 0).sum(0)))  # the one that took the longest
    length = int((steps[:, column] > 0).sum())
    if not length:
        return 1.0
    alpha, beta = steps[:length, column], ratios[:length, column]
    diagonal = 1 / alpha
    diagonal[1:] += beta[:-1] / alpha[:-1]
    values = eigvalsh_tridiagonal(diagonal, np.sqrt(beta[:-1]) / alpha[:-1])
    return float(values[-1] / max(values[0], 1e-30 * values[-1]))
