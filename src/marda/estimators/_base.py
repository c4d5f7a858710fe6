"""What `MDA` and `MDAClassifier` share: parameters, checks, and the fit of layers."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from marda._linalg import InaccurateError, SingularError
from marda._memory import format_bytes
from marda._order import row_order
from marda._validation import UNLABELED, Labels, check_domains, check_number, encode_labels, summed
from marda.estimators._callers import check_callers
from marda.estimators._denoised import ACTIVATIONS, DenoisedRows, Layer
from marda.estimators._files import ModelFiles
from marda.moments import Moments, accumulate
from marda.noise import Dropout, Poisson, as_noise
from marda.operators.cost import Workload, routes
from marda.operators.maps import DenoisingMap, IdentityMap
from marda.problem import Problem, Settings
from marda.solve import Solution, solve
from marda.terms import Model, parse_method

__all__ = ["BaseMDA", "moments_layer"]

Matrix = NDArray[Any]

#: Parameters that the operators of (★) do not depend on; `noise` is compared by itself.
NOT_OF_THE_PROBLEM = (
    *("method", "noise", "classifier", "refine", "center", "normalize"),
    *("max_iter", "tol", "random_state", "verbose"),
)


class BaseMDA(DenoisedRows, ModelFiles, BaseEstimator):
    """Parameters and the fit of denoising layers."""

    # Models of the same rows may be given one dict: they then share every factorisation that their
    # parameters allow (set it before fit; it is the caller's to drop).
    _problems: dict[Any, Problem] | None = None
    # Whether rows have their own order already (_order.py); a public `fit` says that they have not.
    _ordered: bool = True
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sample_domain": True}

    def __init__(
        self,
        method: str = "S1D",
        *,
        noise: Any = 0.5,
        ridge: float = 1e-2,
        ridge_class: float = 1.0,
        ridge_domain: float = 1.0,
        class_loss_weight: float = 1.0,
        domain_loss_weight: float = 1.0,
        marginalization: str = "exact",
        scaling: str = "balanced",
        fit_intercept: bool = True,
        class_weight: Any = None,
        n_layers: int = 1,
        activation: str = "tanh",
        concatenate: bool = True,
        center: bool = False,
        normalize: bool = False,
        solver: str = "auto",
        n_pivots: int | None = None,
        max_iter: int = 100,
        tol: float = 1e-5,
        unlabeled: Any = -1,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.method = method
        self.noise = noise
        self.ridge = ridge
        self.ridge_class = ridge_class
        self.ridge_domain = ridge_domain
        self.class_loss_weight = class_loss_weight
        self.domain_loss_weight = domain_loss_weight
        self.marginalization = marginalization
        self.scaling = scaling
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.n_layers = n_layers
        self.activation = activation
        self.concatenate = concatenate
        self.center = center
        self.normalize = normalize
        self.solver = solver
        self.n_pivots = n_pivots
        self.max_iter = max_iter
        self.tol = tol
        self.unlabeled = unlabeled
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # Checks -----------------------------------------------------------------------------------

    def _settings(self, model: Model) -> Settings:
        """Checked numbers and switches."""
        for name, allowed in (
            ("marginalization", ("exact", "paper")),
            ("scaling", ("balanced", "paper", "relative")),
            ("activation", tuple(ACTIVATIONS)),
            ("solver", ("auto", "primal", "dual", "cg")),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {allowed}, got {getattr(self, name)!r}.")
        for name, low in (("n_layers", 1), ("max_iter", 1), ("n_pivots", 1)):
            value = getattr(self, name)
            if value is None and name == "n_pivots":
                continue
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
                raise ValueError(f"{name} must be a whole number, at least {low}, got {value!r}.")
        check_number("tol", self.tol)
        if self.n_pivots is not None and not model.denoise:
            raise ValueError(f"n_pivots has no meaning for {model.name}, which does not denoise.")
        numbers = {
            name: self._number(name)
            for name in (
                "ridge",
                "ridge_class",
                "ridge_domain",
                "class_loss_weight",
                "domain_loss_weight",
            )
        }
        return Settings(
            noise=Dropout(0.0) if model.name == "BL" else as_noise(self.noise),
            marginalization=self.marginalization,
            scaling=self.scaling,
            fit_intercept=bool(self.fit_intercept),
            **numbers,
        )

    def _number(self, name: str) -> float:
        """A ridge or weight, checked."""
        return check_number(name, getattr(self, name))

    def _check_rows(
        self, X: Any, y: Any, sample_domain: Any
    ) -> tuple[Any, Labels, NDArray[np.int64]]:
        """Rows, coded labels, domains."""
        X = summed(validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32]))
        domain = check_domains(sample_domain, X.shape[0])
        labels = encode_labels(y, domain, self.unlabeled, given=sample_domain is not None)
        if y is not None:
            check_callers(labels.codes == UNLABELED, self.unlabeled)
        return X, labels, domain

    def _set_seen(self, X: Any, labels: Labels, domain: NDArray[np.int64]) -> None:
        """What a fit sees."""
        target_labelled = bool(((domain < 0) & (labels.codes != UNLABELED)).any())
        self.setting_ = _setting(labels.codes, target_labelled)
        self.domains_ = np.unique(domain)
        self.n_features_in_ = X.shape[1]

    # Fit --------------------------------------------------------------------------------------

    def _fit_layers(
        self,
        X: Any,
        labels: Labels,
        domain: NDArray[np.int64],
        predictor: bool,
        model: Model | None = None,
    ) -> Solution:
        """Fit `n_layers` maps; the solution of the last has the class predictor, if wanted.

        The solution holds every factorisation: it is not kept after the fit.
        """
        model = model or parse_method(self.method)
        settings = self._settings(model)
        if model.joint and len(labels.classes) < 2:
            raise ValueError(
                f"method={self.method!r} needs labels of at least 2 classes in y, got "
                f"{'one class' if len(labels.classes) else 'none'}."
            )
        self._layers: list[Layer] = []
        H = X
        for depth in range(self.n_layers):
            last = depth == self.n_layers - 1
            layer, solution = self._fit_layer(
                model, settings, H, labels, domain, predictor and self.n_layers == 1
            )
            self._layers.append(layer)
            if not last:
                H = self._activate(layer.map.apply(H))
        self._set_solution(solution)
        self.solver_ = self._layers[0].solver
        self._set_centers(self._group_means(X, labels, domain))
        return solution

    def _set_solution(self, solution: Solution) -> None:
        self.residual_ = solution.residual
        self.loss_curve_ = np.array(solution.loss_curve)
        self.n_iter_ = solution.n_iter
        if not solution.converged:
            warnings.warn(
                f"the alternation of {solution.model.name} stopped at max_iter={self.max_iter} "
                f"before the loss settled to tol={self.tol:g}: raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        if self.verbose:
            print(
                f"[marda] {solution.model.name}: {solution.n_iter} alternation(s), "
                f"loss {solution.loss_curve[-1] if solution.loss_curve else float('nan'):.6g}"
            )

    def _fit_layer(
        self,
        model: Model,
        settings: Settings,
        X: Any,
        labels: Labels,
        domain: NDArray[np.int64],
        predictor: bool,
    ) -> tuple[Layer, Solution]:
        if isinstance(settings.noise, Poisson) and X.min() < 0:
            raise ValueError(f"Poisson noise needs non-negative features, got {X.min():g}.")
        solvers = self._routes(model, settings, X, labels, predictor)
        for solver in solvers:
            try:
                problem = self._shared_problem(model, solver, X, labels, domain, settings)
                self._class_weights = problem.class_weights
                return self._solved(problem, model, predictor, X.dtype)
            except (SingularError, InaccurateError) as error:
                # Right by another route, or refused
                if solver == solvers[-1]:
                    raise
                if self.verbose:
                    print(f"[marda] solver {solver!r} gave no right answer: {error}")
        raise AssertionError("unreachable")

    def _shared_problem(
        self,
        model: Model,
        solver: str,
        X: Any,
        labels: Labels,
        domain: NDArray[np.int64],
        settings: Settings,
    ) -> Problem:
        """The problem of these rows, from the cache if the estimator was given one."""
        if self._problems is None or self.n_layers > 1:
            return self._make_problem(solver, X, labels, domain, settings)
        noise = self.noise if isinstance(self.noise, float) else id(self.noise)
        others = [
            repr(getattr(self, name))
            for name in sorted(self.get_params(deep=False))
            if name not in NOT_OF_THE_PROBLEM
        ]
        key = (solver, model.name == "BL" or noise, *others)
        if key not in self._problems:
            self._problems[key] = self._make_problem(solver, X, labels, domain, settings)
        return self._problems[key]

    def _make_problem(
        self, solver: str, X: Any, labels: Labels, domain: NDArray[np.int64], settings: Settings
    ) -> Problem:
        outputs = _pivots(X, self.n_pivots)
        rows = {}
        codes = labels.codes
        if solver != "primal" or self.class_weight is not None:
            # In an order of their own: iterations would amplify the rounding of sums. A copy: the
            # problem takes it over, and the map keeps it.
            order = np.arange(len(codes)) if self._ordered else row_order(X, domain, codes)
            order = order[np.argsort(codes[order] == UNLABELED, kind="stable")]
            X, codes, domain = X[order], codes[order], domain[order]
        moments = accumulate(X, labels.classes, codes, domain, grams=solver == "primal")
        weights = moments.class_weights(self.class_weight)
        if solver != "primal" or not np.all(weights == 1):  # else Grams say it all
            rows = {"X": X, "row_groups": moments.row_groups(domain, codes)}
        return Problem(moments, settings, solver, weights, outputs=outputs, **rows)

    def _solved(
        self, problem: Problem, model: Model, predictor: bool, dtype: Any
    ) -> tuple[Layer, Solution]:
        """Solve, and keep what transform needs."""
        solution = solve(problem, model, predictor=predictor, max_iter=self.max_iter, tol=self.tol)
        solution.check()
        d = problem.moments.n_features
        base = IdentityMap(d) if solution.denoiser is None else solution.denoiser.freeze()
        frozen = DenoisingMap(
            base,
            solution.delta[:d],
            solution.basis,
            solution.offset(),
            dtype,
            center=problem.center,
            at_center=solution.at_center(),
        )
        return Layer(frozen, problem.solver, problem.outputs), solution

    def _routes(
        self, model: Model, settings: Settings, X: Any, labels: Labels, predictor: bool
    ) -> list[str]:
        """The routes to try, best first; one that the user chose stands alone."""
        n, d = X.shape
        work = Workload(
            n_rows=n,
            n_labelled=int((labels.codes != UNLABELED).sum()),
            n_features=d,
            n_outputs=min(d, self.n_pivots or d),
            n_classes=len(labels.classes),
            n_stored=X.nnz if sp.issparse(X) else n * d,
            itemsize=X.dtype.itemsize,
            sparse=sp.issparse(X),
            joint=model.joint,
            coupled=model.joint and model.domain,
            domain=model.domain,
            predictor=predictor,
            plain=not model.denoise,
        )
        # The dual route divides by the diagonal of G: noise or a ridge must fill it.
        ridge = settings.ridge if model.denoise else settings.ridge_class
        found = routes(work, self.solver, dual=ridge > 0 and settings.ridge_class > 0)
        if self.verbose:
            solver, cost = found[0]
            print(
                f"[marda] {n} rows × {d} features: solver {solver!r}, about "
                f"{cost.flops:.2g} flops and {format_bytes(cost.bytes)}"
            )
        return [solver for solver, _ in found]


def _setting(codes: NDArray[np.int64], target_labelled: bool) -> str:
    """US, SUP or SS: follows from which target rows carry a label."""
    if (codes != UNLABELED).all():
        return "SUP"
    return "SS" if target_labelled else "US"


def _pivots(X: Any, n_pivots: int | None) -> NDArray[np.int64] | None:
    """The columns that are non-zero in the most rows; ties go to the larger sum of squares."""
    if n_pivots is None or n_pivots >= X.shape[1]:
        return None
    if sp.issparse(X):
        frequency = np.bincount(X.indices[X.data != 0], minlength=X.shape[1])
        squares = np.asarray(X.multiply(X).sum(0), dtype=np.float64).ravel()
    else:
        frequency = np.count_nonzero(X, axis=0)
        squares = np.einsum("ij,ij->j", X, X, dtype=np.float64)
    return np.sort(np.lexsort((-squares, -frequency))[:n_pivots])


def moments_layer(estimator: BaseMDA, moments: Moments, predictor: bool) -> tuple[Layer, Solution]:
    """A layer from statistics alone: the primal route."""
    model = parse_method(estimator.method)
    settings = estimator._settings(model)
    if estimator.n_layers > 1:
        raise ValueError("n_layers above 1 needs rows: moments of the next layer are not known.")
    if estimator.n_pivots is not None:
        raise ValueError("n_pivots needs rows: moments do not tell which features are frequent.")
    if estimator.solver not in ("auto", "primal"):
        raise ValueError(f"solver={estimator.solver!r} needs rows: moments are for 'primal'.")
    weights = moments.class_weights(estimator.class_weight)
    problem = Problem(moments, settings, "primal", weights)
    return estimator._solved(problem, model, predictor, np.float64)
