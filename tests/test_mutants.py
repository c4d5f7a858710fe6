"""The mutation tester: what it changes, what it leaves, and that a live function changes."""

from __future__ import annotations

import sys

import pytest

from repository_scripts import SCRIPTS

TEXT = '''\
"""A module."""

from functools import cached_property

LIMIT = 3


def add(a: int, b: int = 2, *, twice: bool = False) -> int:
    """Add 1 and 1."""
    assert a is not None
    if a > LIMIT:
        raise ValueError(f"{a + 1} is too large")
    total = a + b
    return 2 * total if twice else total


class Box:
    def __init__(self, value: int):
        super().__init__()
        self.value = value

    @cached_property
    def half(self) -> float:
        return self.value / 2

    @staticmethod
    def sign(value: int) -> int:
        return -value
'''


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A module of the tree that is mutated, loaded."""
    if not SCRIPTS.exists():
        pytest.skip("no scripts in this copy")
    monkeypatch.syspath_prepend(str(SCRIPTS.parent))
    from scripts.mutants.mutate import Source

    folder = tmp_path / "src" / "marda"
    folder.mkdir(parents=True)
    (folder / "sample.py").write_text(TEXT, encoding="utf-8")
    loaded = Source(tmp_path, "sample.py")
    module = type(sys)("marda.sample")
    exec(compile(TEXT, str(loaded.path), "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, "marda.sample", module)
    return loaded


def test_what_is_changed_and_what_is_not(source):
    changes = {(m.function, m.before, m.after) for m in source.mutants}
    assert ("add", "a > LIMIT", "a >= LIMIT") in changes
    assert ("add", "a > LIMIT", "a <= LIMIT") in changes
    assert ("add", "twice", "twice or True") in changes
    assert ("add", "a + b", "a - b") in changes
    assert ("add", "2", "3") in changes
    assert ("add", "False", "True") in changes
    assert ("Box.half", "self.value / 2", "self.value * 2") in changes
    assert ("Box.sign", "-value", "value") in changes
    assert ("Box.__init__", "self.value = value", "(nothing)") in changes
    texts = " ".join(before for _, before, _ in changes if not before.startswith("raise"))
    for kept in ("too large", "is not None", "Add 1", "a + 1", "LIMIT = 3"):
        assert kept not in texts
    keys = [m.key for m in source.mutants]
    assert len(set(keys)) == len(keys)


def refused(module):
    with pytest.raises(ValueError, match="4 is too large"):
        module.add(3)
    return True


@pytest.mark.parametrize(
    ("function", "before", "after", "call", "result"),
    [
        ("add", "a + b", "a - b", lambda m: m.add(3), 1),
        ("add", "a > LIMIT", "a >= LIMIT", refused, True),
        ("add", "2", "3", lambda m: m.add(1), 4),
        ("add", "False", "True", lambda m: m.add(1), 6),
        ("Box.half", "self.value / 2", "self.value * 2", lambda m: m.Box(4).half, 8),
        ("Box.sign", "-value", "value", lambda m: m.Box.sign(4), 4),
        ("Box.__init__", "super().__init__()", "(nothing)", lambda m: m.Box(4).value, 4),
    ],
)
def test_a_mutant_is_the_live_function(source, function, before, after, call, result):
    wanted = (function, before, after)
    mutant = next(m for m in source.mutants if (m.function, m.before, m.after) == wanted)
    source.install(mutant)
    assert call(sys.modules["marda.sample"]) == result


def test_results_hold_until_the_function_or_the_tests_change(source, tmp_path):
    from scripts.mutants.run import KILLED, SURVIVED, Results

    killed, survivor = source.mutants[:2]
    results = Results(tmp_path / "results.json", "tests", 5.0)
    results.add(killed, KILLED, "test_a", 0.1)
    results.add(survivor, SURVIVED, "", 0.1)
    results.save()
    again = Results(results.path, "tests", 5.0).load()
    assert again.of(killed)["by"] == "test_a"
    assert again.of(survivor)["status"] == SURVIVED
    assert again.of(source.mutants[2]) is None
    other_tests = Results(results.path, "other", 5.0).load()
    assert other_tests.of(killed) is not None
    assert other_tests.of(survivor) is None
    assert Results(results.path, "tests", 6.0).load().of(survivor) is None
    results.found[killed.key]["code"] = "another"
    assert results.of(killed) is None


def test_every_reason_is_of_a_mutant_that_exists():
    if not SCRIPTS.exists():
        pytest.skip("no scripts in this copy")
    sys.path.insert(0, str(SCRIPTS.parent))
    try:
        from scripts.mutants.mutate import MODULES, Source
        from scripts.mutants.page import reasons
    finally:
        sys.path.pop(0)
    keys = {m.key for module in MODULES for m in Source(SCRIPTS.parent, f"{module}.py").mutants}
    assert set(reasons()) <= keys
