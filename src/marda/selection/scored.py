"""What a scorer sees: rows of one side, and a fitted estimator of marda, scikit-learn or skada."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import sklearn
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, column_or_1d
from sklearn.utils.metadata_routing import get_routing_for_object

from marda._order import row_order
from marda._pack import pack
from marda._validation import check_domains
from marda.criteria import check_probabilities

__all__ = ["ScoredEstimator", "SideRows", "split_rows"]


class SideRows(NamedTuple):
    """Rows of all sources or all targets; labels of source rows alone, where they are needed."""

    X: Any
    y: NDArray[Any]
    domain: NDArray[np.int64]


def split_rows(
    scorer: str, X: Any, y: Any, sample_domain: Any, *, labels: bool
) -> tuple[SideRows, SideRows]:
    """Source rows and target rows; the labels of target rows stay where they are."""
    if sample_domain is None:
        raise ValueError(
            f"{scorer} needs sample_domain to tell target rows from source rows: pass it to fit "
            "under sklearn.set_config(enable_metadata_routing=True), or to the scorer itself."
        )
    domain = check_domains(sample_domain, X.shape[0], both=False)
    # In an order of their own: what scorers draw does not depend on how rows came.
    known = np.asarray(column_or_1d(y)) if labels and y is not None else np.empty(0)
    order = _order(X, domain, *([_codes(known)] if len(known) == len(domain) else []))
    source, target = order[domain[order] >= 0], order[domain[order] < 0]
    for name, rule, missing in (
        ("target", "below 0", not len(target)),
        ("source", "at least 0", labels and not len(source)),
    ):
        if missing:
            raise ValueError(
                f"{scorer} needs {name} rows (sample_domain {rule}), got none among "
                f"{X.shape[0]} rows: split rows so that every part has some of both domains."
            )
    if labels and y is None:
        raise ValueError(f"{scorer} needs the labels of source rows, got y=None.")
    return (
        SideRows(_safe_indexing(X, source), known[source] if labels else known, domain[source]),
        SideRows(_safe_indexing(X, target), np.empty(0), domain[target]),
    )


def _codes(y: NDArray[Any]) -> NDArray[np.int64]:
    """Numbers that tell labels apart, of whatever kind they and their marks are."""
    return np.unique([str(value) for value in y.tolist()], return_inverse=True)[1].ravel()


def _order(X: Any, *keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The order of rows that an estimator may still have to turn into numbers."""
    rows = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
    if rows.ndim != 2 or rows.dtype.kind not in "iufb":
        return np.arange(X.shape[0])
    return row_order(rows, *keys)


class ScoredEstimator:
    """An estimator asked for labels, probabilities and features of rows of one side."""

    def __init__(self, estimator: Any, scorer: str):
        self.estimator = estimator
        self.scorer = scorer

    def fit_reversed(
        self, source: SideRows, target: SideRows, labels: NDArray[Any]
    ) -> ScoredEstimator:
        """A clone that learns from target rows with these labels; source rows have none.

        An estimator that takes no domains learns from the target rows alone.
        """
        turned = ScoredEstimator(clone(self.estimator), self.scorer)
        domain = -1 - np.concatenate([target.domain, source.domain])
        domains = _metadata(turned.estimator, "fit", domain)
        if domains:
            X, y, _ = pack(target.X, labels, source.X, unlabeled=self.mark)
        else:
            X, y = target.X, labels
        turned.estimator.fit(X, y, **domains)
        return turned

    @property
    def mark(self) -> Any:
        """The mark of rows without a label that the estimator (or a step of it) goes by."""
        params = self.estimator.get_params().items()
        marks = [value for name, value in params if name.rpartition("__")[2] == "unlabeled"]
        return marks[-1] if marks else -1

    def labels(self, rows: SideRows) -> NDArray[Any]:
        """Predicted labels."""
        known = _metadata(self.estimator, "predict", rows.domain)
        return np.asarray(self.estimator.predict(rows.X, **known))

    def probabilities(self, rows: SideRows) -> NDArray[np.float64]:
        """Predicted probabilities."""
        if not hasattr(self.estimator, "predict_proba"):
            raise ValueError(
                f"{self.scorer} needs predict_proba, which {_name(self.estimator)} does not have: "
                "use a classifier with probabilities, or a criterion that reads labels alone."
            )
        known = _metadata(self.estimator, "predict_proba", rows.domain)
        return check_probabilities(self.estimator.predict_proba(rows.X, **known))

    def log_losses(self, rows: SideRows) -> NDArray[np.float64]:
        """−log P of each row's own label; a label the estimator never saw has P = 0 (cut)."""
        P, classes = self.probabilities(rows), _classes(self.estimator)
        place = np.searchsorted(classes, rows.y)
        place[place == len(classes)] = 0
        own = np.where(classes[place] == rows.y, P[np.arange(len(P)), place], 0.0)
        tiny = np.finfo(np.float64).eps
        return np.asarray(-np.log(np.clip(own, tiny, 1.0)))

    def features(self, rows: SideRows, which: str) -> Any:
        """Rows as they come, or as the last step that transforms leaves them: array or CSR."""
        if which not in ("input", "transform"):
            raise ValueError(f"features must be 'input' or 'transform', got {which!r}.")
        X = rows.X
        transformer = _transformer(self.estimator) if which == "transform" else None
        if transformer is not None:
            X = transformer.transform(X, **_metadata(transformer, "transform", rows.domain))
        return sp.csr_array(X) if sp.issparse(X) else np.asarray(X)


def _transformer(estimator: Any) -> Any:
    """The estimator, or the longest head of a pipeline that can transform; None: there is none."""
    if isinstance(estimator, Pipeline):
        for end in range(len(estimator), 0, -1):
            if hasattr(estimator[:end], "transform"):
                return estimator[:end]
        return None
    return estimator if hasattr(estimator, "transform") else None


def _classes(estimator: Any) -> NDArray[Any]:
    """Labels of the columns of predict_proba."""
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    # skada wraps each step in a selector, which does not show the classes of what it holds.
    return np.asarray(getattr(last, "base_estimator_", last).classes_)


def _metadata(estimator: Any, method: str, domain: NDArray[np.int64]) -> dict[str, Any]:
    """What the method takes of `sample_domain` and skada's leave to predict source rows."""
    offered = {"sample_domain": domain, "allow_source": True}
    wanted = _consumed(estimator, method)
    if wanted and isinstance(estimator, Pipeline) and not _routing():
        raise ValueError(
            f"{method} of this pipeline takes sample_domain by metadata routing, which is off: "
            "call sklearn.set_config(enable_metadata_routing=True)."
        )
    return {name: value for name, value in offered.items() if name in wanted}


def _routing() -> bool:
    return bool(sklearn.get_config()["enable_metadata_routing"])


def _consumed(estimator: Any, method: str) -> set[str]:
    routing = get_routing_for_object(estimator)
    return set(routing.consumes(method, ["sample_domain", "allow_source"]))


def _name(estimator: Any) -> str:
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    return type(last).__name__
