"""Rows far from the origin: the covariance keeps its digits, against extended precision."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from marda import Moments
from marda.moments.accumulate import Collector
from problems import relative

D = 4
BATCH = 50_000
MIX = np.random.default_rng(1).standard_normal((D, D)) + 2 * np.eye(D)
OFFSET = 1e6 * np.linalg.norm(MIX, axis=0)  # 10⁶ standard deviations, column by column


def batch(number):
    """Rows, labels and domains of one batch; the domains differ by a few standard deviations."""
    rng = np.random.default_rng([7, number])
    domain = np.where(rng.random(BATCH) < 0.5, 0, -1)
    near = rng.standard_normal((BATCH, D)) @ MIX + (domain < 0)[:, None] * 3.0
    return near + OFFSET, rng.integers(0, 2, BATCH), domain


def extended_scatter(n_batches):
    """Σ(x − m)(x − m)ᵀ with 64 bits of mantissa; x − OFFSET is exact, the two are so close."""
    n, total, products = 0, np.zeros(D, np.longdouble), np.zeros((D, D), np.longdouble)
    for number in range(n_batches):
        Z = (batch(number)[0] - OFFSET).astype(np.longdouble)
        n += len(Z)
        total += Z.sum(0)
        products += np.einsum("ni,nj->ij", Z, Z)
    return n, products - np.outer(total, total) / n


def check(n_batches):
    assert np.finfo(np.longdouble).eps < 1e-18, "this platform has no extended precision"
    n, exact = extended_scatter(n_batches)
    one = Moments.from_batches(batch(i) for i in range(n_batches))
    # Ten owners, every one with a reference point of its own, merged in pairs and in a row.
    owners = []
    for k in range(10):
        total = Collector()
        for number in range(k, n_batches, 10):
            total.add(*batch(number))
        if total.n_rows:
            owners.append(total.result())
    row = functools.reduce(lambda a, b: a + b, owners)
    while len(owners) > 1:
        owners = [sum(owners[i + 1 : i + 2], owners[i]) for i in range(0, len(owners), 2)]
    for moments in (one, row, owners[0]):
        assert moments.n_rows == n
        _, total, _ = moments.select(np.ones(len(moments.counts), dtype=bool))
        assert relative(moments.scatter(total / n), exact) < 1e-6
    return n, exact


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="no extended precision here")
def test_an_offset_of_a_million_deviations():
    n, exact = check(4)
    assert n == 2 * 10**5
    # The test can fail: sums about the origin do.
    X = np.concatenate([batch(i)[0] for i in range(4)])
    plain = X.T @ X - n * np.outer(X.mean(0), X.mean(0))
    assert relative(plain, exact) > 1e-6


@pytest.mark.slow
@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="no extended precision here")
def test_ten_million_rows_with_an_offset_of_a_million_deviations():
    n, _ = check(200)
    assert n == 10**7
