"""Noise paths and candidates of searches against docs/math.md in 400 bits: right, or refused."""

from __future__ import annotations

import numpy as np
import pytest

import path_sweep
from marda.noise_paths import NoisePath, PathCandidates
from path_sweep import outcomes, path_outcomes, problems, search_outcomes
from reference_sweep import REGIMES, Spec

PROBLEMS = problems()
#: In the default suite: two per regime, a wide one and a long one, which differ in the rest.
FEW = [
    s for r, regime in enumerate(REGIMES) for s in (PROBLEMS[16 * r + r], PROBLEMS[16 * r + 15 - r])
]


@pytest.mark.parametrize("spec", FEW, ids=str)
def test_right_or_refused(spec: Spec):
    found = outcomes(spec)
    assert all(o.acceptable for o in found), "\n".join(map(str, found))
    if spec.regime == "ordinary":
        assert {o.verdict for o in found} == {"right"}


@pytest.mark.slow
@pytest.mark.parametrize("spec", [s for s in PROBLEMS if s not in FEW], ids=str)
def test_right_or_refused_everywhere(spec: Spec):
    found = outcomes(spec)
    assert all(o.acceptable for o in found), "\n".join(map(str, found))


def test_the_sweep_covers_what_it_says():
    assert len(PROBLEMS) == len(set(PROBLEMS)) == 112
    assert {s.regime for s in FEW} == set(REGIMES)
    for regime in REGIMES:
        here = [s for s in PROBLEMS if s.regime == regime]
        assert len({(s.sources, s.bias, s.dtype, s.shape) for s in here}) == 16
        assert {s.shape for s in FEW if s.regime == regime} == {"wide", "long"}


def test_errors_are_seen(monkeypatch):
    spec = PROBLEMS[0]
    gains = NoisePath.gains
    monkeypatch.setattr(NoisePath, "gains", lambda self, p: gains(self, p) * (1 + 1e-5))
    monkeypatch.setattr(NoisePath, "check", lambda *_: None)
    assert {o.verdict for o in path_outcomes(spec)} == {"wrong"}
    coefs = PathCandidates.coefs

    def off(self, many):
        for coef, intercept in coefs(self, many):
            yield coef * (1 + 1e-5), intercept

    monkeypatch.setattr(PathCandidates, "coefs", off)
    assert {o.verdict for o in search_outcomes(spec)} == {"wrong"}


def test_refusals_and_crashes_are_told_apart(monkeypatch):
    spec = PROBLEMS[0]

    def refuse(*_):
        raise ValueError("these rows are too far apart: scale them.")

    monkeypatch.setattr(NoisePath, "check", refuse)
    assert {o.verdict for o in path_outcomes(spec)} == {"refused"}

    def crash(*_):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(PathCandidates, "_solve", crash)
    assert {o.verdict for o in search_outcomes(spec)} == {"crashed"}


def test_the_command_prints_the_table(capsys):
    assert path_sweep.main(["--regime", "noise 0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("16 problems, 160 answers")
    assert [line.split("|")[2].strip() for line in lines if "| all |" in line] == ["path", "search"]
