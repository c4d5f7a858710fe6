"""Every awkward pair goes to the right answer, by itself or with the options that it was told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import awkward

BY_NAME = {case.name: case for case in awkward.CASES}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Probabilities of the pairs that others hold the same as."""
    found: dict[str, list[float]] = {}

    def of(name):
        if name not in found:
            done = awkward.run(BY_NAME[name], tmp_path_factory.mktemp(name))
            assert not done.problem
            found[name] = done.probabilities
        return found[name]

    return of


def test_there_are_many_of_them():
    assert len(awkward.CASES) == len(BY_NAME) >= 100


@pytest.mark.parametrize("name", BY_NAME)
def test_awkward(name, tmp_path, plain):
    case = BY_NAME[name]
    for module in case.needs:
        pytest.importorskip(module)
    done = awkward.run(case, tmp_path)
    if case.like is not None:
        awkward.compare(done, plain(case.like))
    assert not done.problem
    assert case.options or not done.message  # nothing on standard error


def test_a_pair_that_is_read_wrongly_fails(tmp_path, plain):
    """The check sees what it is for: decimals taken for thousands."""
    case = BY_NAME["decimal-comma"]
    make = case.make

    def wrong(folder):
        sources, target = make(folder)
        target.write_text(target.read_text().replace(",", ""))
        return sources, target

    done = awkward.run(awkward.Case("wrong", "", wrong), tmp_path)
    awkward.compare(done, plain("plain"))
    assert done.problem
