"""Auxiliary classifiers, DA-SVM and MMDT: support vector machines that adapt.

- Domain adaptation via auxiliary classifiers (Duan, Tsang, Xu, Chua: ICML 2009):
  `AuxiliaryClassifiers`
- Domain adaptation support vector machine (Bruzzone, Marconcini: TPAMI 2010): `DASVM`
- Max-margin domain transforms (Hoffman, Rodner, Donahue, Darrell, Saenko: ICLR 2013): `MMDT`, the
  one system here that learns from labelled target rows
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVR, LinearSVC
from sklearn.utils import gen_batches

from marda.benchmarks.peers.projections import (
    Domains,
    Labels,
    Matrix,
    System,
    split_domains,
    unit_rows,
)

_BATCH = 2000
"""Rows of which a kernel with all target rows is held at once."""


def _leading(scores: Matrix) -> Labels:
    """The class of the largest score per row; a single score is that of the second class."""
    return np.asarray((scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(1))


@dataclass(eq=False, repr=False)
class AuxiliaryClassifiers(System):
    """A smooth target classifier that says of target rows what the source's classifier says.

    min ½‖f‖² + C Σ max(0, |f(x) − f_s(x)| − ε) over target rows, one f per class: with one source
    and no labelled target row, the paper's virtual labels are the source classifier's decisions.
    The kernel is Gaussian, of scikit-learn's width "scale", and computed once for all classes: the
    machine's own way, entry by entry, takes nine times as long.

    Parameters
    ----------
    C, epsilon : float, default=1.0, 0.1
        Weight of the loss, and what may differ without loss.
    """

    C: float = 1.0
    epsilon: float = 0.1

    def fit(self, X: Any, y: Any, *, sample_domain: Any) -> AuxiliaryClassifiers:
        """Fit on rows of both domains."""
        domains = split_domains(X, y, sample_domain)
        self.source_ = LinearSVC(random_state=0).fit(domains.source, domains.labels)
        said = self.source_.decision_function(domains.target)
        said = np.column_stack([-said, said]) if said.ndim == 1 else said
        wanted = said[:, 1:] if said.shape[1] == 2 else said
        self.rows_ = domains.target
        variance = float(self.rows_.var())
        self.gamma_ = 1 / (self.rows_.shape[1] * variance) if variance else 1.0
        K = rbf_kernel(self.rows_, gamma=self.gamma_)
        new = SVR(kernel="precomputed", C=self.C, epsilon=self.epsilon)
        self.target_ = [clone(new).fit(K, column) for column in wanted.T]
        self.classes_ = domains.classes
        return self

    def numbers(self, X: Matrix) -> Labels:
        """Those of the largest scores."""
        found = []
        for some in gen_batches(len(X), _BATCH):
            K = rbf_kernel(X[some], self.rows_, gamma=self.gamma_)
            found.append(_leading(np.column_stack([one.predict(K) for one in self.target_])))
        return np.concatenate(found)


@dataclass(eq=False, repr=False)
class DASVM(System):
    """A support vector machine that trades source rows for target rows, a few in every step.

    One machine per class against the rest. In a step, the target rows of its margin that lie
    nearest to its bounds get the label of their side, as many source rows of each side that lie
    farthest from the boundary are left out, and target labels that the next machine contradicts are
    taken back. Source rows weigh ever less, target rows ever more. The last machine has seen target
    rows alone, unless a side has none of them: then the last one with both sides counts. Rows are
    divided by their length.

    The authors stop when the margin is empty and choose parameters by a circular validation; here
    the number of steps is fixed and rows per step follow from it, the same on all data.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    n_iter : int, default=10
        Steps until no source row is left.
    """

    C: float = 1.0
    n_iter: int = 10

    def fit(self, X: Any, y: Any, *, sample_domain: Any) -> DASVM:
        """Fit on rows of both domains."""
        domains = split_domains(X, y, sample_domain)
        self.classes_ = domains.classes
        positive = range(1, 2) if len(domains.classes) == 2 else range(len(domains.classes))
        self.machines_ = [self._machine(domains, c) for c in positive]
        return self

    def _machine(self, domains: Domains, c: int) -> LinearSVC:
        rows = unit_rows(domains.rows)
        n, total = domains.n_source, len(rows)
        sign = np.append(np.where(domains.labels == c, 1, -1), np.zeros(total - n, dtype=int))
        source = np.arange(total) < n
        each = {side: -(-int(np.sum(sign == side)) // self.n_iter) for side in (1, -1)}
        arriving = -(-(total - n) // (2 * self.n_iter))
        machine = self._fitted(rows, sign, np.ones(total))
        for step in range(1, self.n_iter + 1):
            said = machine.decision_function(rows)
            guess = np.where(said > 0, 1, -1)
            sign[~source & (sign != guess)] = 0  # contradicted, or not labelled yet
            for side in (1, -1):
                inside = np.flatnonzero(~source & (sign == 0) & (guess == side) & (said * side < 1))
                sign[inside[np.argsort(-said[inside] * side)[:arriving]]] = side
                left = np.flatnonzero(source & (sign == side))
                sign[left[np.argsort(-said[left] * side)[: each[side]]]] = 0
            if len(np.unique(sign[sign != 0])) < 2:
                break
            share = step / self.n_iter
            machine = self._fitted(rows, sign, np.where(source, 1 - 0.9 * share**2, share))
        return machine

    def _fitted(self, rows: Matrix, sign: NDArray[Any], weight: Matrix) -> LinearSVC:
        used = sign != 0
        return LinearSVC(C=self.C, random_state=0).fit(rows[used], sign[used], weight[used])

    def numbers(self, X: Matrix) -> Labels:
        """Those of the largest decisions."""
        rows = unit_rows(X)
        return _leading(np.column_stack([m.decision_function(rows) for m in self.machines_]))


@dataclass(eq=False, repr=False)
class MMDT(System):
    """One linear transform of target rows, and classifiers of both domains, of largest margin.

    min ½‖W − I‖² + Σ_c ½‖θ_c‖² + C_s Σ hinge(θ_c·x + b_c) + C_t Σ hinge(θ_c·Wx + b_c) over labelled
    source rows and labelled target rows, in turn: the classifiers for a given W, and W for given
    classifiers. W = I + Σ α y θ_c xᵀ has one α in [0, C_t] per class and labelled target row.
    Rows are divided by their length. Without labelled target rows there is nothing to learn W from,
    and `fit` refuses.

    Parameters
    ----------
    C_source, C_target : float, default=0.05, 1.0
        Weights of the losses, the authors'.
    n_iter : int, default=5
        Alternations.
    """

    C_source: float = 0.05
    C_target: float = 1.0
    n_iter: int = 5

    def fit(self, X: Any, y: Any, *, sample_domain: Any) -> MMDT:
        """Fit on labelled rows of both domains."""
        domains = split_domains(X, y, sample_domain)
        told = domains.target_labels >= 0
        if not told.any():
            raise ValueError(
                "MMDT needs labelled target rows of classes that the source has: got 0."
            )
        target, labels = unit_rows(domains.target[told]), domains.target_labels[told]
        source = unit_rows(domains.source)
        self.classes_ = domains.classes
        every = np.append(domains.labels, labels)
        weight = np.append(
            np.full(domains.n_source, self.C_source), np.full(len(labels), self.C_target)
        )
        Y = np.where(np.arange(len(self.classes_)) == labels[:, None], 1.0, -1.0)
        moved = target
        for _ in range(self.n_iter):
            both = np.vstack([source, moved])
            self.theta_, self.intercept_ = self._classifiers(both, every, weight)
            # Margins before W moves a row, and how every (row, class) moves every other.
            start = 1 - Y * (target @ self.theta_.T + self.intercept_)
            pull = np.kron(target @ target.T, self.theta_ @ self.theta_.T)
            alpha = box_program(pull * np.outer(Y, Y), start.ravel(), self.C_target)
            self.pulls_ = (alpha.reshape(Y.shape) * Y) @ self.theta_
            self.rows_ = target
            moved = self.transform(target)
        return self

    @staticmethod
    def _classifiers(X: Matrix, labels: NDArray[Any], weight: Matrix) -> tuple[Matrix, Matrix]:
        found = LinearSVC(C=1.0, random_state=0).fit(X, labels, weight)
        theta, intercept = found.coef_, found.intercept_
        if len(theta) == 1:  # two classes: one against the other, and the other way round
            theta, intercept = np.vstack([-theta, theta]), np.append(-intercept, intercept)
        return theta, intercept

    def transform(self, X: Any) -> Matrix:
        """Target rows moved to where the classifiers expect them."""
        X = unit_rows(X)
        found: Matrix = X + (X @ self.rows_.T) @ self.pulls_
        return found

    def numbers(self, X: Matrix) -> Labels:
        """Of target rows: those of the largest scores."""
        return np.asarray((self.transform(X) @ self.theta_.T + self.intercept_).argmax(1))


def box_program(Q: Matrix, p: Matrix, top: float) -> Matrix:
    """The α in [0, top] with the least ½ αᵀQα − pᵀα; Q is positive semi-definite."""

    def loss(alpha: Matrix) -> tuple[float, Matrix]:
        Qa = Q @ alpha
        return float(alpha @ (Qa / 2 - p)), Qa - p

    found = minimize(
        loss,
        np.zeros(len(p)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, top)] * len(p),
        options={"maxiter": 500},
    )
    return np.asarray(found.x)
