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


def case(torture, **change):
    """Rows of objects, nothing else odd."""
    given = {
        "what": "DSCM",
        "parameters": {},
        "sources": [6],
        "targets": [4],
        "n_features": 2,
        "n_classes": 2,
        "seed": 1,
        "dtype": "float64",
        "storage": "object",
        "exponent": 0,
        "defects": [],
        "labels": "int",
        "known": 0.0,
        "shuffled": False,
    }
    return torture.Case(**(given | change))


def drawn(torture, group, n=60):
    found = []
    torture.smallest(group, n, lambda case: bool(found.append(case)))
    return found


def test_the_same_cases_are_drawn_again(torture):
    for group in torture.GROUPS:
        cases = drawn(torture, group)
        assert cases == drawn(torture, group)
        assert len({case.storage for case in cases}) > 5
        assert {case.what for case in cases} == {group.split()[0]}


def test_every_storage_and_label_says_the_same(torture):
    rows = case(torture).drawn[0]
    for storage in torture.STORAGES:
        for dtype in ("float64", "uint16"):
            X = case(torture, storage=storage, dtype=dtype).given()[0]
            rows = case(torture, storage=storage, dtype=dtype).scaled
            dense = X.toarray() if sp.issparse(X) else X
            np.testing.assert_array_equal(np.asarray(dense, dtype=float), rows)
    unsorted = case(torture, storage="csr unsorted").given()[0]
    assert not unsorted.has_sorted_indices
    assert not case(torture, storage="csr duplicates").given()[0].has_canonical_format
    for labels in torture.LABELS:
        odd = case(torture, labels=labels, known=1.0 if labels in torture.WHOLE else 0.0)
        y = odd.given()[1].tolist()
        assert len(set(map(str, y))) == len(np.unique(odd.drawn[1]))


def test_a_case_is_printed_as_a_program_that_runs(torture, capsys):
    shuffled = case(torture, what="MDA", parameters={"method": "S1"}, shuffled=True, exponent=20)
    names = {}
    exec(f"{shuffled.program}\n{shuffled.call}", names)
    assert "array" in capsys.readouterr().out or names["model"].n_iter_ == 1
    np.testing.assert_array_equal(names["X"].astype(float), shuffled.scaled[shuffled.drawn[2]])


def fit(change):
    """Answers of an estimator that does something."""

    def answers(what, parameters, X, y, domain):
        return change(X)

    return answers


ROWS = np.zeros(10)


@pytest.mark.parametrize(
    ("change", "outcome", "cause"),
    [
        (lambda X: {"scores": ROWS}, "right", ""),
        (lambda X: {"scores": ROWS + np.nan}, "wrong", "scores is not finite"),
        (lambda X: {"scores": ROWS, "residual_": np.ones(1)}, "wrong", "residual_"),
        (lambda X: {"scores": ROWS + float(X.dtype == object)}, "wrong", "differs"),
        (lambda X: {"scores": ROWS[: 10 - (X.dtype == object)]}, "wrong", "shape"),
        (lambda X: X.fill(0) or {}, "wrong", "was changed"),
        (lambda X: np.linalg.inv(np.zeros((2, 2))), "crashed", "LinAlgError"),
        (lambda X: warnings.warn("odd", RuntimeWarning, stacklevel=1), "crashed", "odd"),
        (lambda X: {}["missing"], "crashed", "KeyError"),
    ],
)
def test_outcomes(torture, monkeypatch, change, outcome, cause):
    monkeypatch.setattr(torture, "answers", fit(change))
    got, why = torture.judged(case(torture))
    assert (got, cause in why) == (outcome, True)


def test_a_refusal_needs_a_cause(torture, monkeypatch):
    def refuse(X):
        if X.dtype == object:
            raise ValueError("rows of objects are not taken here.")
        return {"scores": ROWS}

    monkeypatch.setattr(torture, "answers", fit(refuse))
    assert torture.judged(case(torture))[0] == "wrong"
    assert torture.judged(case(torture, exponent=150))[0] == "refused"


@pytest.mark.parametrize("solver", ["primal", "dual", "cg"])
def test_a_wrong_digit_is_seen(torture, monkeypatch, solver):
    small = case(torture, what="MDA", parameters={"method": "S1D", "solver": solver})
    assert small.small
    assert torture.judged(small) == ("right", "")
    right = torture.answers

    def off(*given):
        found = right(*given)
        return found | {"features": found["features"] * (1 + 1e-5)}

    monkeypatch.setattr(torture, "answers", off)
    assert torture.judged(small) == ("wrong", "features differs from that by 400 bits")


def test_a_failure_is_shrunk_and_printed(torture):
    def judge(case):
        wrong = case.n_features > 4 and case.exponent > 2
        return ("wrong", "large and wide") if wrong else ("right", "")

    tally = torture.run(200, judge)
    (cause,) = tally.causes()
    assert "large and wide" in cause
    assert "n_features=5" in cause
    assert "exponent=3" in cause
    assert "marda." in cause
    assert sum(row.wrong for row in tally.rows()) > 10


def test_the_table(torture):
    rows = torture.run(4).rows()  # `make torture-short` tries more
    assert [row.what for row in rows] == sorted(torture.GROUPS)
    assert all(row.tried == sum(row[2:6]) for row in rows)
    assert sum(row.wrong + row.crashed for row in rows) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_a_python_is_found_or_the_lack_of_one_told(tmp_path):
    finder = SCRIPTS / "find_python.sh"
    if not finder.exists():
        pytest.skip("no scripts in this copy")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("ls", "sed", "sort", "sh"):
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
    # The newest of all that are there, whatever its number.
    for place, name in (
        (tools, "python3.15"),
        (tmp_path / "pyenv/versions/3.16.0a1/bin", "python"),
    ):
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f"#!/bin/sh\necho this is {name}\n")
        (place / name).chmod(0o755)
        assert f"this is {name}\n" in find().stdout
