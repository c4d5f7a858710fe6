"""Names of domains: what tells two owners' domains apart when their numbers are the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count

__all__ = ["renumber"]


def renumber(
    parts: Iterable[tuple[Iterable[int], Mapping[int, str]]],
) -> tuple[list[dict[int, int]], dict[int, str]]:
    """New numbers of the domains of several parts, and the names that go with them.

    A named domain is the same wherever its name and its side (source or target) are; a domain
    without a name keeps its number. The result does not depend on the order of the parts.

    Parameters
    ----------
    parts : pairs of (domain numbers, names of some of them)

    Returns
    -------
    new : list of dict
        For every part, old number → new number.
    names : dict of int to str
        Names of the new numbers.
    """
    held = [(list(numbers), dict(names)) for numbers, names in parts]
    taken = {n for numbers, names in held for n in numbers if n not in names}
    place: dict[tuple[bool, str], int] = {}
    for source in (True, False):
        wanted = sorted(
            {
                names[n]
                for numbers, names in held
                for n in numbers
                if n in names and (n >= 0) is source
            }
        )
        free = (n for n in (count(0) if source else count(-1, -1)) if n not in taken)
        place.update({(source, name): next(free) for name in wanted})
    new = [
        {n: place[n >= 0, names[n]] if n in names else n for n in numbers}
        for numbers, names in held
    ]
    return new, {number: name for (_, name), number in place.items()}
