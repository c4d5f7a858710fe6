"""Which method a command runs when none is named."""

from __future__ import annotations

__all__ = ["FROM_STATISTICS", "IN_MEMORY", "chosen_method"]

IN_MEMORY = "S1D"
FROM_STATISTICS = "S1D"


def chosen_method(method: str | None, *, rows: bool) -> tuple[str, tuple[str, ...]]:
    """The method, and notes about the choice.

    Parameters
    ----------
    method : str or None
        What was asked for; None: the default.
    rows : bool
        Whether rows are in memory; statistics alone do not allow every choice.

    Returns
    -------
    method : str
    notes : tuple of str
    """
    if rows:
        return method or IN_MEMORY, ()
    if method is None:
        return FROM_STATISTICS, (
            f"no --method was named: {FROM_STATISTICS} is used, since choosing one needs rows in "
            "memory.",
        )
    return method, ()
