"""The torture of estimators: what it feeds them, and that it sees what is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from repository_scripts import SCRIPTS, script


@pytest.fixture(scope="module")
def torture():
    folder = str(SCRIPTS.parent)
    if folder not in sys.path:
        sys.path.append(folder)  # its files import each other
    return script("torture/estimators.py")


def test_a_number_draws_the_same_case_again(torture):
    kinds, storages = set(), set()
    for number in range(120):
        case, what, parameters = torture.draw(number)
        again, *rest = torture.draw(number)
        assert [what, parameters] == rest
        assert str(case) == str(again)
        kinds.add(what)
        storages.add(case.storage)
        dense = case.X.toarray() if sp.issparse(case.X) else case.X
        np.testing.assert_array_equal(np.asarray(dense, dtype=float), case.scaled)
    assert kinds == set(torture.KINDS)
    assert {s.split()[0] for s in storages} == {"dense", "sparse"}


def fit(change):
    """Answers of an estimator that does something."""

    def answers(what, parameters, X, y, domain, labels):
        return change(X)

    return answers


@pytest.mark.parametrize(
    ("change", "outcome", "cause"),
    [
        (lambda X: {"scores": np.zeros(3)}, "right", ""),
        (lambda X: {"scores": np.full(3, np.nan)}, "wrong", "scores is not finite"),
        (lambda X: {"scores": np.zeros(3), "residual": np.ones(1)}, "wrong", "residual_"),
        (lambda X: {"scores": np.array([float(X.dtype == object)])}, "wrong", "differs"),
        (lambda X: X.fill(0) or {}, "wrong", "X was changed"),
        (lambda X: np.linalg.inv(np.zeros((2, 2))), "crashed", "LinAlgError"),
        (lambda X: warnings.warn("odd", RuntimeWarning, stacklevel=1), "crashed", "odd"),
        (lambda X: {}["missing"], "crashed", "KeyError"),
    ],
)
def test_outcomes(torture, monkeypatch, change, outcome, cause):
    case, *_ = torture.draw(0)
    case.X = case.scaled.astype(object)
    monkeypatch.setattr(torture, "answers", fit(change))
    got, why = torture.judged(case, "DSCM", {})
    assert (got, cause in why) == (outcome, True)


def test_a_refusal_needs_a_cause(torture, monkeypatch):
    def refuse(X):
        if X.dtype == object:
            raise ValueError("rows of objects are not taken here.")
        return {"scores": np.zeros(3)}

    monkeypatch.setattr(torture, "answers", fit(refuse))
    ordinary = next(
        case for case, *_ in map(torture.draw, range(100)) if case.ordinary and not case.defects
    )
    ordinary.X = ordinary.scaled.astype(object)
    assert torture.judged(ordinary, "DSCM", {})[0] == "wrong"
    ordinary.exponent = 150
    assert torture.judged(ordinary, "DSCM", {})[0] == "refused"


def test_the_table(torture):
    rows = torture.run(cases=6)
    assert sum(row.tried for row in rows) == 6
    assert all(row.tried == sum(row[2:6]) for row in rows)
    assert torture.table(2).lines()[0].split("|")[1].strip() == "what"


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_a_python_is_found_or_the_lack_of_one_told(tmp_path):
    finder = SCRIPTS / "find_python.sh"
    if not finder.exists():
        pytest.skip("no scripts in this copy")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("ls", "sort", "sh"):
        (tools / name).symlink_to(
            next(p for p in ("/bin", "/usr/bin") if os.path.exists(f"{p}/{name}")) + f"/{name}"
        )
    env = {"PATH": str(tools), "PYENV_ROOT": str(tmp_path / "pyenv")}

    def find(*versions):
        call = ["/bin/sh", str(finder), *versions]
        return subprocess.run(call, env=env, capture_output=True, text=True, check=False)

    none = find()
    assert none.returncode == 1
    assert none.stderr.count("\n") == 1
    assert "Python 3.11 or newer" in none.stderr
    shim = tools / "python3.13"  # a shim that answers nothing is no Python
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    assert "No Python 3.13 found" in find("3.13").stderr
    real = tmp_path / "pyenv" / "versions" / "3.13.7" / "bin"
    real.mkdir(parents=True)
    (real / "python").symlink_to(sys.executable)
    found = find("3.13", "3.12")
    assert found.returncode == 0
    assert found.stdout.strip()
