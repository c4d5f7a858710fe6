"""Checks of labels and domains; every message says what is wrong, what came and what to do.

Misuse is refused, never guessed. A mark that would be taken for a class is the usual one: `y` of
`pack` without its `sample_domain`, domains with the wrong sign, a mark that became a string. So the
mark −1 is a class only where −1 and +1 are all the labels there are, or where NaN or None marks.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from itertools import combinations
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from marda._arrays import detached, is_followed, namespace, place_of, to_numpy

UNLABELED = -1  # code of a row without a label
MAX_ENTRY = 1e150  # its square, and sums of many such, are numbers; so is the square of 1 / that


class Labels(NamedTuple):
    """Class values, and a code per row: an index into them, or UNLABELED."""

    classes: NDArray[Any]
    codes: NDArray[np.int64]


def check_number(name: str, value: Any, *, strict: bool = False) -> float:
    """A finite real number that is at least 0 (above it if strict)."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, got {value!r}.") from None
    if not np.isfinite(number) or number < 0 or (strict and number == 0):
        bound = "above" if strict else "at least"
        raise ValueError(f"{name} must be {bound} 0, got {value!r}.")
    return number


def seed_of(random_state: Any) -> int:
    """A seed for all draws of one fit; None is 0, so that two fits of the same rows agree."""
    given = 0 if random_state is None else random_state
    return int(check_random_state(given).randint(np.iinfo(np.int32).max))


def check_flags(parameters: Mapping[str, Any], *names: str) -> None:
    """Refuse text for yes or no: "no" would be yes."""
    for name in names:
        if isinstance(parameters[name], str):
            raise ValueError(f"{name} must be True or False, got {parameters[name]!r}.")


def check_class_weight(weight: Any, classes: NDArray[Any]) -> None:
    """None, "balanced", or a dict from classes to weights of which one at least is above 0."""
    if weight is None or (isinstance(weight, str) and weight == "balanced"):
        return
    if not isinstance(weight, Mapping):
        raise ValueError(f"class_weight must be None, 'balanced' or a dict, got {weight!r}.")
    known = classes.tolist()
    unknown = [key for key in weight if key not in set(known)]
    if unknown:
        raise ValueError(f"class_weight names {unknown[0]!r}, which is not a class of y.")
    weights = np.array([float(weight.get(c, 1.0)) for c in known])
    if not np.all(np.isfinite(weights) & (weights >= 0)) or not weights.any():
        raise ValueError(f"class_weight must be finite, at least 0 and not all 0, got {weight!r}.")


def summed(X: Any) -> Any:
    """Checked rows; sparse ones with every entry stored once, in order, at an index of 32 bits.

    The entries of one place are its sum: a square root or a count must not see its parts. SciPy
    would also bring them together in the caller's own array. Trees of scikit-learn refuse longer
    indices, which SciPy makes of coordinates that numpy made.
    """
    if sp.issparse(X) and X.indices.dtype != np.int32 and max(X.nnz, *X.shape) < 2**31:
        short = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
        X = type(X)(short, shape=X.shape)
    if sp.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def float_types(X: Any) -> list[Any]:
    """The types that rows may have, by the names of their library."""
    xp = namespace(X) if is_followed(X) else np
    return [xp.float64, xp.float32]


def check_same_place(estimator: Any, X: Any, seen: tuple[str, str], method: str) -> None:
    """Refuse checked rows of another library or device than those of the fit (`place_of`)."""
    given = place_of(X)
    if seen != given:
        raise ValueError(
            f"Inputs passed to {type(estimator).__name__}.{method}() must use the same namespace "
            f"and the same device as those passed to fit(): it was fitted on arrays of {seen[0]} "
            f"on {seen[1]}, and these are of {given[0]} on {given[1]}. Move the rows, or save the "
            "model and load it, which then takes numpy arrays."
        )


def check_rows(
    estimator: Any, X: Any, y: Any, sample_domain: Any
) -> tuple[Any, Labels, NDArray[np.int64]]:
    """Rows, coded labels and domains of a fit; the estimator remembers the features."""
    check_indexes(X=X, y=y, sample_domain=sample_domain)
    X = _validated(estimator, X, float_types(X), reset=True)
    domain = check_domains(sample_domain, X.shape[0])
    labels = encode_labels(y, domain, estimator.unlabeled, given=sample_domain is not None)
    if y is not None:
        check_callers(labels.codes == UNLABELED, estimator.unlabeled)
    return X, labels, domain


def check_indexes(**given: Any) -> None:
    """Refuse tables and series that name the same rows in another order: places are what counts.

    The numbering that pandas gives of itself names nothing.
    """
    indexes: dict[str, Any] = {name: getattr(value, "index", None) for name, value in given.items()}
    named = {
        name: index
        for name, index in indexes.items()
        if type(index).__module__.partition(".")[0] == "pandas"
        and type(index).__name__ != "RangeIndex"
    }
    for (one, index), (other, second) in combinations(named.items(), 2):
        if len(index) != len(second) or index.equals(second) or not index.is_unique:
            continue
        if second.is_unique and bool(index.isin(second).all()):
            raise ValueError(
                f"{one} and {other} hold the same index in another order, and rows are matched by "
                f"their places: write {other}.loc[{one}.index], or {other}.to_numpy() if the "
                "places are right."
            )


def check_new_rows(estimator: Any, X: Any, dtype: Any = None) -> Any:
    """Rows of the features that a fitted estimator has seen."""
    return _validated(estimator, X, dtype or float_types(X), reset=False)


def _validated(estimator: Any, X: Any, dtype: Any, *, reset: bool) -> Any:
    check_unmasked(X)
    X = summed(validate_data(estimator, detached(X), reset=reset, accept_sparse="csr", dtype=dtype))
    check_magnitude(X, least=1 / MAX_ENTRY if reset else 0.0)
    return X


def check_unmasked(X: Any) -> None:
    """Refuse what scikit-learn would read under its mask."""
    if np.ma.is_masked(X):
        raise ValueError(
            "X is a masked array, and what is masked would be read: fill it, for example with "
            "sklearn.impute.SimpleImputer on X.filled(numpy.nan)."
        )


def check_magnitude(X: Any, least: float = 0.0) -> None:
    """Refuse rows whose squares no number holds: distances and variances would be 0 or infinite."""
    entries = X.data if sp.issparse(X) else X
    if 0 in entries.shape:
        return
    xp = namespace(entries)
    largest = max(float(xp.max(entries)), -float(xp.min(entries)))
    if largest > MAX_ENTRY or 0 < largest < least:
        raise ValueError(
            f"the largest entry of X is {largest:.0e}, whose square float64 cannot hold: "
            "rescale X, for example with sklearn.preprocessing.MaxAbsScaler (rows to predict as "
            "those of the fit)."
        )


def check_domains(sample_domain: Any, n_rows: int, *, both: bool = True) -> NDArray[np.int64]:
    """One integer per row; ≥ 0 is a source, < 0 a target. None: every row is of one source.

    A fit needs both kinds; statistics of a part of the rows do not.
    """
    if sample_domain is None:
        return np.ones(n_rows, dtype=np.int64)
    domain = np.asarray(to_numpy(sample_domain))
    if domain.ndim == 2 and domain.shape[1] == 1:
        domain = domain[:, 0]
    if domain.ndim != 1:
        raise ValueError(
            f"sample_domain must hold one number per row, got shape {domain.shape}: "
            f"sample_domain = np.where(is_target, -1, 1) has shape ({n_rows},)."
        )
    if domain.shape[0] != n_rows:
        raise ValueError(
            f"sample_domain has {domain.shape[0]} values but X has {n_rows} rows: write "
            "X, y, sample_domain = pack(Xs, ys, Xt) and pass all three."
        )
    if domain.dtype.kind == "O":  # a column of whole numbers in a table of mixed types
        domain = np.array(domain.tolist())
    # A bool tells source from target, but nobody can know which of them is True.
    wrong = np.ones(n_rows, dtype=bool)
    if domain.dtype.kind in "iu":
        wrong = domain > np.iinfo(np.int64).max
    elif domain.dtype.kind == "f":
        wrong = (domain != np.floor(domain)) | ~(np.abs(domain) <= 2.0**53)
    if wrong.any():
        raise ValueError(
            "sample_domain must hold whole numbers (at least 0 for a source, below 0 for a "
            f"target), got {domain.dtype} values such as {domain[wrong][0]}: write "
            "sample_domain = np.where(is_target, -1, 1)."
        )
    domain = domain.astype(np.int64)
    for wanted, present, rule in (
        ("target", bool((domain < 0).any()), "below 0"),
        ("source", bool((domain >= 0).any()), "at least 0"),
    ):
        if both and not present:
            raise ValueError(
                f"sample_domain has no {wanted} rows (numbers {rule}): give rows of both "
                "domains (sources are >= 0, targets < 0), or leave sample_domain out to fit on "
                "one domain."
            )
    return domain


def _missing(y: NDArray[Any]) -> NDArray[np.bool_]:
    """NaN in float labels, NaT in dates, None or NaN in object labels."""
    if y.dtype.kind == "f":
        return np.asarray(np.isnan(y))
    if y.dtype.kind in "mM":
        return np.asarray(np.isnat(y))
    if y.dtype.kind == "O":
        return np.array([_is_missing(v) for v in y], dtype=bool)
    return np.zeros(y.shape[0], dtype=bool)


def _is_missing(value: Any) -> bool:
    """None, NaN, or the NA of a table library (which refuses to be compared)."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and bool(np.isnan(value))


def is_marked(y: NDArray[Any], mark: Any) -> NDArray[np.bool_]:
    """Rows that carry the mark, NaN or None: all of these say "no label"."""
    marked = _missing(y)
    if _is_missing(mark):
        return marked
    if y.dtype.kind == "O":
        known = zip(y, marked, strict=True)
        return np.array([gone or (type(v) is not bool and v == mark) for v, gone in known], bool)
    if y.dtype.kind in "US":
        return marked | (y == mark) if isinstance(mark, str) else marked
    if y.dtype.kind in "mM":
        return marked
    return marked if isinstance(mark, str) else marked | (y == mark)


def encode_labels(
    y: Any, domain: NDArray[np.int64], mark: Any, *, given: bool = True, whole: bool = True
) -> Labels:
    """Class values and codes; only target rows may be unlabelled.

    Parameters
    ----------
    y : array of shape (n_rows,) or None
        Labels as they came.
    domain : array of shape (n_rows,)
        Checked domains.
    mark : object
        The mark of unlabelled target rows.
    given : bool, default=True
        Whether the caller gave `sample_domain`; if not, no row may carry a mark.
    whole : bool, default=True
        Whether these are all rows of a fit, of which the source has some with a label.
    """
    if y is None:
        return Labels(np.empty(0, dtype=np.int64), np.full(domain.shape[0], UNLABELED))
    y = np.asarray(column_or_1d(to_numpy(y), warn=True))
    if y.shape[0] != domain.shape[0]:
        raise ValueError(f"y has {y.shape[0]} labels but X has {domain.shape[0]} rows.")
    target = domain < 0
    missing = _missing(y)
    check_marks(y, domain if given else None, mark, whole=whole)
    if (missing & ~target).any():
        row = int(np.flatnonzero(missing & ~target)[0])
        raise ValueError(
            f"y has no label (NaN or None) for source row {row}: Input contains NaN. Only target "
            "rows may be unlabelled: X, y = X[known], y[known] drops such rows."
        )
    if y.dtype.kind == "f" and np.isinf(y).any():
        raise ValueError("y contains infinity: labels must be finite.")
    marked = is_marked(y, mark)
    if missing.any() and (marked & ~target).any():
        marked = missing  # NaN or None marks here, so the mark is a label like any other
    elif (marked & target).any() and (marked & ~target).any():
        raise ValueError(
            f"the mark of unlabelled target rows, {mark!r}, is also a class of the source rows: "
            "mark them otherwise, with unlabeled=… (or NaN in float labels, None in object labels)."
        )
    unlabelled = marked & target
    known = y[~unlabelled]
    if known.dtype.kind == "O" and known.size:
        known = _plain(known)
    check_classification_targets(known)
    classes, inverse = np.unique(known, return_inverse=True)
    codes = np.full(y.shape[0], UNLABELED, dtype=np.int64)
    codes[~unlabelled] = inverse.ravel()
    return Labels(classes, codes)


def decode_labels(labels: Labels, mark: Any) -> NDArray[Any]:
    """Labels of rows; those without one carry the mark, or NaN or None where it would be misread.

    As `pack` marks: a class is no mark, a number stands beside numbers and a string beside others.
    """
    y = labels.classes[np.maximum(labels.codes, 0)]
    unlabelled = labels.codes == UNLABELED
    if not unlabelled.any():
        return y
    if y.dtype.kind in "iuf":
        mark = mark if isinstance(mark, Real) and mark not in labels.classes else np.nan
        y = y.astype(np.result_type(y, np.min_scalar_type(mark)))
    else:
        mark = mark if isinstance(mark, str) and mark not in labels.classes else None
        y = y.astype(object)
    y[unlabelled] = mark
    return y


# Marks that would be taken for classes -----------------------------------------------------------

_WRITE_FIT = "fit(X, y, sample_domain=sample_domain)"


def check_marks(y: Any, domain: NDArray[np.int64] | None, mark: Any, *, whole: bool = True) -> None:
    """Refuse labels in which a mark would be taken for a class; `domain` None: not given."""
    y = np.asarray(y)
    if y.ndim != 1 or not y.size:
        return
    _check_text_marks(y, domain, mark)
    if domain is None:
        _check_without_domains(y, mark)
    else:
        _check_sides(y, domain, mark, whole)


def is_class(classes: NDArray[Any], mark: Any) -> bool:
    """Whether a mark among these labels can be a class: −1 beside +1 alone."""
    if classes.dtype.kind not in "iuf" or isinstance(mark, str) or mark != -1:
        return False
    return bool(np.isin(classes, [-1, 1]).all())


def _check_without_domains(y: NDArray[Any], mark: Any) -> None:
    """Without domains every row is a labelled one, so that nothing can be marked."""
    missing, marked = _missing(y), is_marked(y, mark)
    route = (
        "In a pipeline or a search, domains reach fit only with "
        "sklearn.set_config(enable_metadata_routing=True)."
    )
    if missing.any():
        raise ValueError(
            f"y has no label (NaN or None) for row {int(np.flatnonzero(missing)[0])}: Input "
            "contains NaN. It marks an unlabelled target row, and no sample_domain tells which "
            f"rows are of the target: write {_WRITE_FIT} with the sample_domain of pack. {route}"
        )
    if marked.any() and not is_class(y, mark):
        raise ValueError(
            f"y holds {mark!r}, the mark of unlabelled target rows, in {_rows(marked)}, "
            "and no sample_domain tells which rows are of the target: write "
            f"{_WRITE_FIT} with the sample_domain of pack. {route} If {mark!r} is a class, say "
            "so with unlabeled=None."
        )
    values = np.unique(y) if y.dtype.kind in "iu" else y[:0]
    if _is_numbering(values):
        raise ValueError(
            f"y holds {values.tolist()}, which look like the domains that pack numbers, and no "
            f"sample_domain was given: sample_domain is a keyword, write {_WRITE_FIT}."
        )


def _is_numbering(values: NDArray[Any]) -> bool:
    """1, 2, … for sources, then −3, −4, … for targets, as `pack` and skada number domains."""
    numbers = sorted(values.tolist(), key=abs)
    sources = [v for v in numbers if v > 0]
    wanted = [k if k <= len(sources) else -k for k in range(1, len(numbers) + 1)]
    return 0 < len(sources) < len(numbers) and numbers == wanted


def _check_sides(y: NDArray[Any], domain: NDArray[np.int64], mark: Any, whole: bool) -> None:
    """Unlabelled source rows: the domains have the wrong sign, or are no domains at all."""
    target, missing = domain < 0, _missing(y)
    # NaN and None mark if the mark is a label too.
    marked = missing if missing.any() else is_marked(y, mark)
    source_marked, target_marked = marked & ~target, marked & target
    known = y[~marked]
    if whole and not target.all() and source_marked.sum() == (~target).sum() and known.size:
        raise ValueError(
            f"no source row has a label: every row with sample_domain >= 0 is marked ({mark!r}, "
            "NaN or None). Sources are >= 0, targets < 0; did you swap the sign? Write "
            "fit(X, y, sample_domain=-sample_domain)."
        )
    if source_marked.any() and not target_marked.any() and not is_class(y, mark):
        what = (
            "are marked: Input contains NaN"
            if missing.any()
            else f"carry {mark!r}, the mark of unlabelled rows"
        )
        raise ValueError(
            f"y has no label{' (NaN or None)' if missing.any() else ''} for source row "
            f"{int(np.flatnonzero(source_marked)[0])}: {int(source_marked.sum())} source rows "
            f"(sample_domain >= 0) {what}, and no target row does. Only target rows may be "
            "unlabelled. Sources are >= 0, targets < 0; did you swap the sign? Write "
            "fit(X, y, sample_domain=-sample_domain)"
            + ("." if missing.any() else f", or unlabeled=None if {mark!r} is a class.")
        )
    if whole and target.any() and not target.all() and not marked.any():
        alike = y[target] == y[target][0]
        if np.all(alike) and not np.any(y[~target] == y[target][0]):
            raise ValueError(
                f"every target row has the label {y[target][0]!r}, which no source row has: is it "
                "a mark, or are y and sample_domain swapped? Write fit(X, y, "
                "sample_domain=sample_domain) and unlabeled=… for the mark. A meta-estimator that "
                "recodes labels (Bagging, Voting, OneVsRest) turns a mark into such a class: put "
                "one into MDAClassifier(classifier=…), not around it."
            )


def _check_text_marks(y: NDArray[Any], domain: NDArray[np.int64] | None, mark: Any) -> None:
    """np.array(["cat", "dog", -1]) turns the mark into the string "-1"."""
    if y.dtype.kind not in "US" and not (
        y.dtype.kind == "O" and any(isinstance(v, str) for v in y)
    ):
        return
    text = np.array([v if isinstance(v, str | bytes) else "" for v in y.tolist()])
    text = np.char.decode(text) if text.dtype.kind == "S" else text
    target = np.zeros(len(y), dtype=bool) if domain is None else domain < 0
    lost = np.zeros(len(y), dtype=bool)
    if not isinstance(mark, str) and not _is_missing(mark):
        lost = np.isin(text, [str(mark), f"{mark}.0"])
        # Of labels "-1" and "1" both are classes, unless the target has nothing else to say.
        signs = np.isin(text, ["-1", "1", "+1", "-1.0", "1.0", ""]).all()
        if signs and not (target.any() and lost[target].all()):
            lost[:] = False
    if target.any() and not _missing(y).any() and not is_marked(y, mark).any():
        blank = np.isin(text, ["nan", "None", "<NA>"])
        # No source row has such a class: it was NaN or None before it became a string.
        lost |= blank & target if not (blank & ~target).any() else False
    if lost.any():
        found = str(text[lost][0])
        raise ValueError(
            f"y holds the string {found!r} in {_rows(lost)}: a mark of unlabelled rows "
            "that numpy turned into text, as np.array(['cat', -1]) does. Write "
            f"np.array(['cat', None], dtype=object), or unlabeled={found!r} if that is the mark."
        )


def _plain(y: NDArray[Any]) -> NDArray[Any]:
    """Object labels without their None: strings stay objects, numbers become numbers."""
    if all(isinstance(v, str) for v in y):
        return y
    if any(isinstance(v, str) for v in y):
        raise ValueError("y mixes strings with other labels: Unknown label type. Use one kind.")
    if any(np.ndim(v) for v in y):
        raise ValueError(
            f"a label must be one string or number, got {y[0]!r}: Unknown label type. Join its "
            "parts into one string."
        )
    return np.array(y.tolist())


# Meta-estimators that take a mark for a class ----------------------------------------------------


def check_callers(unlabelled: NDArray[np.bool_], mark: Any) -> None:
    """Refuse unlabelled rows within a meta-estimator that would learn their mark as a class.

    A pipeline gives the same `y` to all of its steps, and `CalibratedClassifierCV` reads it itself.
    An estimator sees nothing wrong in what it is given, and scikit-learn has no way for it to ask
    who calls: the frames below are looked at, up to a process boundary (`n_jobs`).
    """
    if not unlabelled.any():
        return
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.pipeline import Pipeline

    frame: Any = inspect.currentframe()
    while frame is not None:
        caller = frame.f_locals.get("self") if "self" in frame.f_code.co_varnames else None
        if isinstance(caller, CalibratedClassifierCV):
            raise ValueError(
                f"CalibratedClassifierCV takes {mark!r}, the mark of unlabelled target rows, for a "
                "class: use MDAClassifierCV(), whose probabilities are calibrated, or fit on all "
                "rows and calibrate on labelled ones, CalibratedClassifierCV(FrozenEstimator(clf))"
                ".fit(X[known], y[known])."
            )
        if isinstance(caller, Pipeline) and _learns_marks(caller.steps[-1][1]):
            name = type(caller.steps[-1][1]).__name__
            raise ValueError(
                f"{name}, the last step of the pipeline, takes {mark!r}, the mark of unlabelled "
                f"target rows, for a class: write MDAClassifier(classifier={name}()) instead of "
                f"MDA(), {name}(), or use skada.make_da_pipeline(MDA(), {name}())."
            )
        frame = frame.f_back


def _learns_marks(last: Any) -> bool:
    """Whether the last step reads labels and knows neither domains nor unlabelled rows."""
    if not hasattr(last, "fit") or not (is_classifier(last) or is_regressor(last)):
        return False
    if type(last).__module__.startswith("sklearn.semi_supervised"):
        return False  # −1 is its mark, too
    routing = get_routing_for_object(last)
    return not routing.consumes("fit", ["sample_domain"])


def _rows(found: NDArray[np.bool_]) -> str:
    n = int(found.sum())
    return "1 row" if n == 1 else f"{n} rows"
