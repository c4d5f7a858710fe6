"""The recipes of docs/architecture.md work as they are printed there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from marda import MDA, MDAClassifier, pack
from repository_scripts import module_of

ROOT = Path(__file__).parents[1]
RECIPES = ROOT / "docs" / "recipes"

pytestmark = pytest.mark.skipif(not RECIPES.exists(), reason="no pages in this copy")


def apply(diff: str, folder: Path) -> int:
    """Apply a unified diff by its text, wherever it stands in a file; how many lines it adds."""
    added, path = 0, None
    for part in re.split(r"^(?=--- |@@ )", diff, flags=re.MULTILINE):
        if part.startswith("--- "):
            path = folder / re.search(r"^\+\+\+ b/(\S+)", part, re.MULTILINE)[1]
        elif part.startswith("@@ "):
            lines = part.splitlines()[1:]
            old = "".join(line[1:] + "\n" for line in lines if not line.startswith("+"))
            new = "".join(line[1:] + "\n" for line in lines if not line.startswith("-"))
            text = path.read_text(encoding="utf-8")
            assert text.count(old) == 1, f"{path.name} has changed: renew docs/recipes\n{old}"
            path.write_text(text.replace(old, new), encoding="utf-8")
            added += sum(line.startswith("+") for line in lines)
    return added


#: Run with the new term: the map that S1B learns, against G⁻¹P written out (math.md §2, §3).
CHECK = """
import numpy as np
from marda import MDA, MDAClassifier, pack

rng = np.random.default_rng(0)
a, b, t = rng.normal(size=(40, 6)), rng.normal(1, 1, (30, 6)), rng.normal(2, 1, (50, 6))
X, y, domain = pack([a, b], [np.arange(40) % 2, np.arange(30) % 2], t)
q, ridge, weight = 0.7, 0.01, 2.0

def marginalised(S):
    return q**2 * S + q * (1 - q) * np.diag(np.diag(S))

v = a.mean(0) - b.mean(0)
spread = (a**2).sum(0) / len(a) ** 2 + (b**2).sum(0) / len(b) ** 2
M = q**2 * np.outer(v, v) + q * (1 - q) * np.diag(spread)
rows = np.vstack([a, b, t])
S = rows.T @ rows
W = np.linalg.solve(marginalised(S) + ridge * np.eye(6) + weight * len(rows) * M, q * S)
for solver in ("primal", "dual"):
    mda = MDA("S1B", noise=1 - q, ridge=ridge, domain_loss_weight=weight,
              fit_intercept=False, solver=solver)
    mda.fit(X, y, sample_domain=domain)
    np.testing.assert_allclose(mda.W_, W, rtol=1e-9, atol=1e-11)

plain = MDA("S1", noise=0.3).fit(X, y, sample_domain=domain)
near = MDA("S1B", noise=0.3, domain_loss_weight=100).fit(X, y, sample_domain=domain)
gap = [np.linalg.norm(m.transform(a).mean(0) - m.transform(b).mean(0)) for m in (plain, near)]
assert gap[1] < 0.3 * gap[0], gap
y[-50:-44] = np.arange(6) % 2  # C needs labelled target rows
joint = MDAClassifier("J12CDB", max_iter=500).fit(X, y, sample_domain=domain)
assert joint.setting_ == "SS" and joint.n_iter_ > 1
try:
    MDA("S1B").fit(*pack(a, np.arange(40) % 2, t)[:2], sample_domain=np.repeat([0, -1], [40, 50]))
except ValueError as error:
    assert "sources" in str(error)
else:
    raise AssertionError("one source was taken")
print("right")
"""


def test_add_a_data_term(tmp_path):
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
    )
    diff = (RECIPES / "data-term.diff").read_text(encoding="utf-8")
    assert apply(diff, tmp_path) < 30
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHECK],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.strip() == "right", run.stderr


def test_add_a_noise():
    recipe = module_of(RECIPES / "noise.py")
    rng = np.random.default_rng(0)
    X = rng.normal(1, 1, (60, 5))
    S, sigma = X.T @ X, 0.5
    mda = MDA("S1", noise=recipe.Multiplicative(sigma), ridge=0.1, fit_intercept=False).fit(X)
    G = S + sigma**2 * np.diag(np.diag(S)) + 0.1 * np.eye(5)
    np.testing.assert_allclose(mda.W_, np.linalg.solve(G, S), rtol=1e-9)
    # The closed form is what sampled corruption tends to.
    drawn = X * (1 + sigma * rng.normal(size=(20_000, *X.shape)))
    Q = np.einsum("kni,knj->ij", drawn, drawn) / len(drawn)
    np.testing.assert_allclose(G - 0.1 * np.eye(5), Q, rtol=0.02)


def test_add_a_scorer():
    recipe = module_of(RECIPES / "scorer.py")
    rng = np.random.default_rng(0)
    ys = np.arange(60) % 2
    X, y, domain = pack(rng.normal(3 * ys[:, None], 1, (60, 4)), ys, rng.normal(1.5, 2, (40, 4)))
    search = recipe.search.fit(X, y, sample_domain=domain)
    assert search.best_params_["noise"] in recipe.NOISE
    model = MDAClassifier("S1", noise=0.1).fit(X, y, sample_domain=domain)
    confidence = model.predict_proba(X[domain < 0]).max(axis=1).mean()
    assert recipe.confidence(model, X, y, sample_domain=domain) == pytest.approx(confidence)
