"""EasyTL, MEDA, SPL and CMMS: target rows get pseudo-labels, and what is learned follows them.

- EasyTL (Wang, Chen, Yu, Huang, Yang: ICME 2019): aligned covariances, then a linear program
- Manifold embedded distribution alignment (Wang, Feng, Chen, Yu, Huang, Yu: ACM MM 2018): `MEDA`
- Selective pseudo-labelling (Wang, Breckon: AAAI 2020): `SPL`
- Class centroid matching and local manifold self-learning (Tian, Tang, Hu, Ren, Zhang: TIP 2020):
  `CMMS`, written from the losses of the paper; the alternation is ours where it leaves one open
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve
from scipy.optimize import linear_sum_assignment, linprog
from scipy.special import softmax
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import NearestNeighbors, kneighbors_graph
from sklearn.svm import LinearSVC

from marda.benchmarks.peers.projections import (
    Labels,
    Matrix,
    System,
    discrepancy,
    flow_factor,
    leading_directions,
    nearest,
    principal_directions,
    split_domains,
    unit_rows,
)

# EasyTL -------------------------------------------------------------------------------------------


def assign(cost: Matrix) -> NDArray[np.int64]:
    """The class of every row: the cheapest assignment in which no class is empty.

    min Σ cost·M so that Σ_c M_jc = 1 for every row, Σ_j M_jc ≥ 1 for every class and M ≥ 0. The
    constraints are those of a transport, so a vertex of the program is a plain assignment.
    """
    n, k = cost.shape
    cheapest = np.asarray(cost.argmin(1))
    if n < k or len(np.unique(cheapest)) == k:  # too few rows for the program, or it has no say
        return cheapest
    of_rows = sp.kron(sp.eye_array(n), np.ones((1, k)), format="csr")
    of_classes = sp.kron(np.ones((1, n)), sp.eye_array(k), format="csr")
    found = linprog(cost.ravel(), A_ub=-of_classes, b_ub=-np.ones(k), A_eq=of_rows, b_eq=np.ones(n))
    if not found.success:
        raise ValueError(f"the linear program of EasyTL was not solved: {found.message}")
    return np.asarray(np.reshape(found.x, (n, k)).argmax(1))


def _power(covariance: Matrix, exponent: float) -> Matrix:
    values, vectors = np.linalg.eigh(covariance + np.eye(len(covariance)))
    found: Matrix = (vectors * values**exponent) @ vectors.T
    return found


class EasyTL(System):
    """Target rows assigned to source class means, all of a batch together.

    Source rows are first multiplied by (cov_s + I)^-½ (cov_t + I)^½. There are no parameters.
    """

    def fit(self, X: Any, y: Any, *, sample_domain: Any) -> EasyTL:
        """Fit on rows of both domains."""
        domains = split_domains(X, y, sample_domain)
        covariances = [np.cov(Z, rowvar=False) for Z in (domains.source, domains.target)]
        aligned = domains.source @ _power(covariances[0], -0.5) @ _power(covariances[1], 0.5)
        self.classes_ = domains.classes
        self.means_ = np.stack(
            [aligned[domains.labels == c].mean(0) for c in range(len(self.classes_))]
        )
        return self

    def numbers(self, X: Matrix) -> Labels:
        """Of a batch of rows: which rows come together matters, by design."""
        return assign(pairwise_distances(X, self.means_, metric="sqeuclidean"))


# MEDA ---------------------------------------------------------------------------------------------


def _distance(source: Matrix, target: Matrix) -> float:
    """A-distance 2(1 − 2ε), ε the error of a linear domain classifier over folds; at least 0."""
    X = np.vstack([source, target])
    y = np.repeat([0, 1], [len(source), len(target)])
    folds = min(2, len(source), len(target))
    if folds < 2:
        return 0.0
    split = StratifiedKFold(folds, shuffle=True, random_state=0)
    error = 1 - float(np.mean(cross_val_score(LinearSVC(random_state=0), X, y, cv=split)))
    return max(0.0, 2 * (1 - 2 * error))


def adaptive_factor(source: Matrix, labels: Labels, target: Matrix, guess: Labels) -> float:
    """μ: how much of the shift is of classes; 1 − d_M / (d_M + Σ_c d_c)."""
    whole = _distance(source, target)
    each = [
        _distance(source[labels == c], target[guess == c]) for c in np.intersect1d(labels, guess)
    ]
    total = whole + sum(each)
    return 1 - whole / total if total > 0 else 0.5


@dataclass(eq=False, repr=False)
class MEDA(System):
    """A kernel classifier on manifold features: small risk, MMD and graph Laplacian at once.

    f = Kβ, β = ((A + λM + ρL)K + ηI)⁻¹AY, with A = 1 on source rows, M = (1 − μ)M_0 + μΣM_c divided
    by its Frobenius norm and L the normalised Laplacian of neighbours. Features are those of the
    geodesic flow kernel, as unit rows; target classes are guessed again and again.

    Parameters
    ----------
    n_components : int, default=20
        Dimension of the subspaces.
    risk, alignment, manifold : float, default=0.1, 10.0, 1.0
        η, λ and ρ.
    n_neighbors : int, default=10
        Of the graph, by cosine.
    n_iter : int, default=10
        Guesses.
    """

    n_components: int = 20
    risk: float = 0.1
    alignment: float = 10.0
    manifold: float = 1.0
    n_neighbors: int = 10
    n_iter: int = 10

    def fit(self, X: Any, y: Any, *, sample_domain: Any) -> MEDA:
        """Fit on rows of both domains."""
        domains = split_domains(X, y, sample_domain)
        bases = [principal_directions(Z, self.n_components) for Z in domains[0:3:2]]
        self.factor_ = flow_factor(*bases)
        self.rows_ = Z = unit_rows(domains.rows @ self.factor_)
        n, total = domains.n_source, len(Z)
        self.width_ = float(np.linalg.norm(Z, axis=1).mean())
        K = rbf_kernel(Z, gamma=1 / (2 * self.width_))
        L = self._laplacian(Z)
        known = np.append(np.ones(n), np.zeros(total - n))
        Y = np.zeros((total, len(domains.classes)))
        Y[np.arange(n), domains.labels] = 1.0
        guess = nearest(Z[:n], domains.labels).predict(Z[n:])
        left = self.manifold * (L @ K) + known[:, None] * K
        left[np.diag_indices(total)] += self.risk
        factor = lu_factor(left, overwrite_a=True, check_finite=False)
        plain = lu_solve(factor, Y, check_finite=False)
        for _ in range(self.n_iter):
            mu = adaptive_factor(Z[:n], domains.labels, Z[n:], guess)
            E = discrepancy(domains.labels, guess, total - n, (1 - mu, mu))
            E *= np.sqrt(self.alignment / np.linalg.norm(E.T @ E))
            # (left + E EᵀK)⁻¹Y: the guess changes a few columns only (Woodbury).
            solved = lu_solve(factor, E, check_finite=False)
            back = K @ E  # K is symmetric
            inside = np.eye(E.shape[1]) + back.T @ solved
            self.weights_ = plain - solved @ np.linalg.solve(inside, back.T @ plain)
            guess = (K[n:] @ self.weights_).argmax(1)
        self.classes_ = domains.classes
        return self

    def _laplacian(self, Z: Matrix) -> Any:
        """I − D^-½ W D^-½, W the cosines of neighbours, made symmetric."""
        k = min(self.n_neighbors, len(Z) - 1)
        graph = kneighbors_graph(Z, k, mode="distance", metric="cosine")
        graph.data = np.maximum(1 - graph.data, 0.0)
        graph = graph.maximum(graph.T)
        degree = np.asarray(graph.sum(1)).ravel()
        root = sp.diags(1 / np.sqrt(np.maximum(degree, 1e-12)))
        return sp.eye(len(Z)) - root @ graph @ root

    def numbers(self, X: Matrix) -> Labels:
        """Those of the largest scores."""
        Z = unit_rows(X @ self.factor_)
        scores = rbf_kernel(Z, self.rows_, gamma=1 / (2 * self.width_)) @ self.weights_
        return np.asarray(scores.argmax(1))


# SPL ----------------------------------------------------------------------------------------------


def locality_directions(X: Matrix, labels: Labels, n: int) -> Matrix:
    """Supervised locality preserving projection: rows of one class are neighbours of each other.

    max tr(PᵀXᵀDXP) for Pᵀ(XᵀLX + I)P = I, with W_ij = 1 within a class, D its degrees, L = D − W.
    """
    counts = np.bincount(labels)[labels].astype(float)
    weighted = X.T @ (counts[:, None] * X)
    sums = np.stack([X[labels == c].sum(0) for c in np.unique(labels)])
    within = weighted - sums.T @ sums  # XᵀLX: per class, N Σxxᵀ − (Σx)(Σx)ᵀ
    penalty = (within + within.T) / 2 + np.eye(X.shape[1])
    return leading_directions(weighted, penalty, n)


def select_per_class(guess: Labels, sure: Matrix, share: float) -> NDArray[np.bool_]:
    """Of the rows guessed to be of a class, the given share that one is surest of."""
    chosen = np.zeros(len(guess), dtype=bool)
    for c in np.unique(guess):
        members = np.flatnonzero(guess == c)
        order = np.argsort(-sure[members], kind="stable")
        chosen[members[order[: int(np.floor(share * len(members)))]]] = True
    return chosen


@dataclass(eq=False, repr=False)
class SPL(System):
    """A projection learned from the source and ever more target rows that guesses agree on.

    A target row is of the class with the nearest source mean, or of the class matched with the
    nearest of as many clusters of target rows, whichever is surer. In round k of T a share k/T of
    the rows of every class is learned from.

    Parameters
    ----------
    n_pca, n_components : int, default=512, 128
        Dimensions after the principal components, and of the projection.
    n_iter : int, default=10
        Rounds T.
    """

    n_pca: int = 512
    n_components: int = 128
    n_iter: int = 10

    def fit(self, X: Any, y: Any, *, sample_domain: Any) -> SPL:
        """Fit on rows of both domains."""
        domains = split_domains(X, y, sample_domain)
        rows, n = unit_rows(domains.rows), domains.n_source
        self.pca_ = PCA(min(self.n_pca, *rows.shape), svd_solver="full").fit(rows)
        rows = unit_rows(self.pca_.transform(rows))
        labels, used = domains.labels, np.arange(len(rows)) < n
        guess = np.zeros(len(rows) - n, dtype=np.int64)
        self.classes_ = domains.classes
        for k in range(1, self.n_iter + 1):
            every = np.append(labels, guess)
            self.projection_ = locality_directions(rows[used], every[used], self.n_components)
            Z = rows @ self.projection_
            self.center_ = Z.mean(0)
            Z = unit_rows(Z - self.center_)
            self._prototypes(Z[:n], labels, Z[n:])
            likely = self._likely(Z[n:])
            guess = likely.argmax(1)
            chosen = select_per_class(guess, likely.max(1), k / self.n_iter)
            used = np.append(np.ones(n, dtype=bool), chosen)
        return self

    def _prototypes(self, source: Matrix, labels: Labels, target: Matrix) -> None:
        """Class means of the source, and the target's clusters matched with them."""
        k = len(self.classes_)
        self.means_ = unit_rows(np.stack([source[labels == c].mean(0) for c in range(k)]))
        self.clusters_ = self.means_
        if len(target) >= k:
            found = KMeans(k, init=self.means_, n_init=1).fit(target).cluster_centers_
            _, match = linear_sum_assignment(pairwise_distances(self.means_, found))
            self.clusters_ = found[match]

    def _likely(self, Z: Matrix) -> Matrix:
        """The surer of both guesses, per row and class."""
        both = [softmax(-pairwise_distances(Z, P), axis=1) for P in (self.means_, self.clusters_)]
        found: Matrix = np.maximum(*both)
        return found

    def numbers(self, X: Matrix) -> Labels:
        """Those that are likeliest."""
        Z = unit_rows(self.pca_.transform(unit_rows(X))) @ self.projection_
        return np.asarray(self._likely(unit_rows(Z - self.center_)).argmax(1))


# CMMS ---------------------------------------------------------------------------------------------


def adaptive_graph(Z: Matrix, k: int) -> Any:
    """Weights s_ij of the k nearest rows: min Σ ‖z_i − z_j‖² s_ij + θ s_ij² on the simplex.

    With θ such that exactly k weights are positive and distances d sorted, s_ij is
    (d_k+1 − d_j) / (k d_k+1 − Σ d).
    """
    k = min(k, len(Z) - 2)
    distance, index = NearestNeighbors(n_neighbors=k + 2).fit(Z).kneighbors(Z)
    d = distance[:, 1:] ** 2  # the nearest is the row itself
    weights = d[:, [k]] - d[:, :k]
    total = weights.sum(1, keepdims=True)
    weights = np.where(total > 0, weights / np.where(total > 0, total, 1.0), 1 / k)
    rows = np.repeat(np.arange(len(Z)), k)
    graph = sp.csr_array((weights.ravel(), (rows, index[:, 1 : k + 1].ravel())), (len(Z), len(Z)))
    return (graph + graph.T) / 2


@dataclass(eq=False, repr=False)
class CMMS(System):
    """A projection in which clusters of target rows stand on the class means of the source.

    min ‖M P − F‖² + α‖X_t P − G F‖² + β‖P‖² + γ tr(PᵀXᵀLXP) so that PᵀXᵀHXP = I: M are the class
    means of source rows, F the centres of the target's clusters, G says which row is of which, L is
    the Laplacian of a graph that is learned from projected rows, in each domain for itself. F, G,
    the graph and P are renewed in turn; F is eliminated from the problem of P.

    Parameters
    ----------
    n_components : int, default=100
        Columns of P.
    clusters, ridge, manifold : float, default=0.1, 0.1, 1.0
        α, β and γ.
    n_neighbors : int, default=10
        Of the graph.
    n_iter : int, default=10
        Alternations.
    """

    n_components: int = 100
    clusters: float = 0.1
    ridge: float = 0.1
    manifold: float = 1.0
    n_neighbors: int = 10
    n_iter: int = 10

    def fit(self, X: Any, y: Any, *, sample_domain: Any) -> CMMS:
        """Fit on rows of both domains."""
        domains = split_domains(X, y, sample_domain)
        self.center_ = domains.rows.mean(0)
        source, target = (unit_rows(Z - self.center_) for Z in domains[0:3:2])
        rows = np.vstack([source, target])
        centred = rows - rows.mean(0)
        scatter, d = centred.T @ centred, rows.shape[1]
        k = len(domains.classes)
        means = np.stack([source[domains.labels == c].mean(0) for c in range(k)])
        Z = [source, target]
        F = means
        for _ in range(self.n_iter):
            G = np.eye(k)[pairwise_distances(Z[1], F).argmin(1)]
            inner = np.eye(k) + self.clusters * np.diag(G.sum(0))
            both = means + self.clusters * G.T @ target  # (I + αGᵀG) F = (M + αGᵀX_t) P
            loss = means.T @ means + self.clusters * target.T @ target
            loss -= both.T @ np.linalg.solve(inner, both)
            for side, projected in ((source, Z[0]), (target, Z[1])):
                S = adaptive_graph(projected, self.n_neighbors)
                degree = np.asarray(S.sum(1)).ravel()
                loss += self.manifold * (side.T @ (degree[:, None] * side - S @ side))
            penalty = (loss + loss.T) / 2 + self.ridge * np.eye(d)
            self.projection_ = P = leading_directions(
                scatter, penalty, self.n_components, unit_scatter=True
            )
            Z = [source @ P, target @ P]
            F = np.linalg.solve(inner, both) @ P
        self.centers_, self.classes_ = F, domains.classes
        return self

    def numbers(self, X: Matrix) -> Labels:
        """Those of the nearest centres."""
        Z = unit_rows(X - self.center_) @ self.projection_
        return np.asarray(pairwise_distances(Z, self.centers_).argmin(1))
