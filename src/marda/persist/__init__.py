"""Model files: one file, no pickle (docs/learn/deployment.md)."""

from __future__ import annotations

import json
import os
from typing import Any

from sklearn.utils.validation import check_is_fitted

from marda.persist.ensembles import decode_search, encode_search
from marda.persist.models import (
    FORMAT,
    ModelFileError,
    Reader,
    Writer,
    decode_model,
    encode_model,
    read_file,
    write_file,
)
from marda.selection import MDAClassifierCV

__all__ = ["FORMAT", "ModelFileError", "load", "on_host", "save"]


def save(estimator: Any, path: str | os.PathLike[str], *, compress: bool = True) -> None:
    """Write a fitted estimator of marda to one file.

    Parameters
    ----------
    estimator : MDA, MDAClassifier, MDAClassifierCV or DSCM
        Fitted. `preprocessing_`, if `marda adapt` left one, is written too.
    path : path
        Replaced only once the file is complete.
    compress : bool, default=True
        Of an `MDAClassifierCV` with compact members, write these alone; False: the full ones, too.
    """
    check_is_fitted(estimator)
    out = Writer()
    content = {
        "estimator": _encoded(estimator, out, full=not compress),
        "preprocessing": getattr(estimator, "preprocessing_", None),
    }
    write_file(path, content, out.arrays)


def on_host(estimator: Any) -> Any:
    """A fitted estimator as it would be saved and loaded: its arrays are numpy's."""
    out = Writer()
    state = json.loads(json.dumps(_encoded(estimator, out, full=True)))
    found = _decoded(state, Reader(out.arrays))
    if hasattr(estimator, "preprocessing_"):
        found.preprocessing_ = estimator.preprocessing_
    return found


def _encoded(estimator: Any, out: Writer, *, full: bool) -> dict[str, Any]:
    if type(estimator) is MDAClassifierCV:
        return encode_search(estimator, out, full=full)
    return encode_model(estimator, out)


def _decoded(state: dict[str, Any], reader: Reader) -> Any:
    decode = decode_search if state["kind"] == MDAClassifierCV.__name__ else decode_model
    return decode(state, reader)


def load(path: str | os.PathLike[str], *, max_bytes: int | None = None) -> Any:
    """Read a model file; it cannot make marda import or run anything.

    Parameters
    ----------
    path : path
        A file written by `save` or `marda adapt --model`.
    max_bytes : int, default=None
        Refuse larger files; None: what memory is free (or MARDA_MEMORY).

    Returns
    -------
    estimator : MDA, MDAClassifier, MDAClassifierCV or DSCM
        It predicts exactly as the one that was saved.

    Raises
    ------
    ModelFileError
        The file is foreign, damaged, too large, or of a newer format.
    """
    content, arrays = read_file(path, max_bytes)
    try:
        estimator = _decoded(content["estimator"], Reader(arrays))
        preprocessing = content["preprocessing"]
        if preprocessing is not None and not isinstance(preprocessing, dict):
            raise TypeError("preprocessing is not an object")
    except (
        *(KeyError, TypeError, ValueError, AttributeError, IndexError),
        *(OverflowError, RecursionError),
    ) as error:
        why = " ".join(str(error).split())[:80]
        raise ModelFileError(
            f"{path} is damaged ({why}): copy the model file again or save the model anew."
        ) from None
    if preprocessing is not None:
        estimator.preprocessing_ = preprocessing
    return estimator
