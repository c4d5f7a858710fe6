"""Steps from a model file: every field is checked, since anyone can write a file."""

from __future__ import annotations

import math
from typing import Any

from marda.io.steps import Category, Matrix, Number, Step, Words

__all__ = ["step_from_json"]

KINDS: dict[str, type[Any]] = {c.kind: c for c in (Number, Category, Words, Matrix)}


def step_from_json(state: dict[str, Any]) -> Step:
    """The step that `to_json` described; anything else raises TypeError, ValueError or KeyError."""
    fields = {k: tuple(v) if isinstance(v, list) else v for k, v in state.items() if k != "kind"}
    step = KINDS[state["kind"]](**fields)
    if isinstance(step, Matrix):
        good = type(step.width) is int and step.width >= 0 and isinstance(step.is_sparse, bool)
        good = good and _texts(step.names) and len(step.names) in (0, step.width)
        for numbers in (step.fill, step.center, step.scale):
            good = good and _numbers(numbers) and len(numbers) in (0, step.width)
        good = good and 0 not in step.scale
    elif isinstance(step, Number):
        fill = () if step.fill is None else (step.fill,)
        good = isinstance(step.name, str) and _numbers((*fill, step.center, step.scale))
        good = good and step.scale != 0
    else:
        good = isinstance(step.name, str) and (step.fill is None or isinstance(step.fill, str))
        values = step.categories if isinstance(step, Category) else step.words
        good = good and _texts(values) and len(set(values)) == len(values)
        if isinstance(step, Words):
            good = good and _numbers(step.idf) and len(step.idf) == len(step.words)
    if not good:
        raise ValueError("a column is described wrongly")
    found: Step = step
    return found


def _texts(values: Any) -> bool:
    return isinstance(values, tuple) and all(isinstance(v, str) for v in values)


def _numbers(values: Any) -> bool:
    return isinstance(values, tuple) and all(
        type(v) in (int, float) and math.isfinite(v) for v in values
    )
