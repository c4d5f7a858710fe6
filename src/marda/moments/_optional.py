"""Optional dependencies: imported where needed, with an error that says what to install."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["is_dask", "require"]


def require(module: str, extra: str) -> Any:
    """The module, or an ImportError that names the extra which brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".", maxsplit=1)[0]
        raise ImportError(
            f"{package} is needed here and could not be imported ({error}): "
            f"pip install 'marda[{extra}]'."
        ) from error


def is_dask(thing: Any) -> bool:
    """Whether this is a Dask collection; dask itself is not imported to tell."""
    return hasattr(type(thing), "__dask_graph__")
