"""What a fitted model does to denoised rows: centres by domain, unit length, class shares."""

from __future__ import annotations

import numpy as np
import pytest

from marda._validation import Labels
from marda.estimators.model import (
    TrainingRows,
    center_and_normalize,
    centers_for,
    row_lengths,
)

CENTERS = {0: np.array([1.0, 0.0, 2.0]), -1: np.array([0.0, 3.0, 0.0])}
DOMAIN = np.array([0, 0, -1, -2, -1])  # every target has the number -1


def rows() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(5, 3))


def written(H: np.ndarray, normalize: bool) -> np.ndarray:
    out = H - np.stack([CENTERS[max(d, -1)] for d in DOMAIN])
    return out / np.linalg.norm(out, axis=1)[:, None] if normalize else out


@pytest.mark.parametrize("normalize", [True, False])
def test_rows_are_centred_by_domain_and_get_unit_length(normalize):
    H, out, lengths = rows(), np.empty((5, 3)), np.zeros(5)
    found = center_and_normalize(H, DOMAIN, CENTERS, normalize, out=out, lengths=lengths)
    assert found is out
    np.testing.assert_array_equal(H, rows())
    np.testing.assert_allclose(found, written(H, normalize), rtol=1e-14)
    if normalize:
        np.testing.assert_allclose(lengths, row_lengths(written(H, False)), rtol=1e-14)
    np.testing.assert_array_equal(center_and_normalize(H, DOMAIN, CENTERS, normalize), found)
    assert not np.array_equal(H, rows())  # without `out` rows are changed where they are


def test_rows_that_are_their_own_centre_become_zero():
    H = rows()
    H[2] = CENTERS[-1] * (1 + 1e-16)
    lengths = np.zeros(5)
    found = center_and_normalize(H, DOMAIN, CENTERS, True, lengths=lengths)
    np.testing.assert_array_equal(found[2], 0)
    assert np.isinf(lengths[2])


def test_a_domain_that_fit_has_not_seen_is_refused():
    with pytest.raises(ValueError, match="sample_domain holds 4, a domain that fit has not seen"):
        center_and_normalize(rows(), np.array([0, 0, 4, 0, 0]), CENTERS, False)


def test_lengths_of_huge_and_tiny_rows():
    H = np.array([[3e200, 4e200], [3e-200, 4e-200], [0, 0]])
    np.testing.assert_allclose(row_lengths(H), [5e200, 5e-200, 0], rtol=1e-14)


def test_a_source_is_centred_for_the_classes_of_the_target():
    means = {0: (np.array([0, 2]), np.array([[1.0, 0], [0, 1]])), -1: (None, np.array([[5.0, 5]]))}
    equal = centers_for(means)
    np.testing.assert_array_equal(equal[0], [0.5, 0.5])
    shared = centers_for(means, np.array([0.3, 0.6, 0.1]))  # class 1 has no rows in the source
    np.testing.assert_allclose(shared[0], [0.75, 0.25])
    np.testing.assert_array_equal(shared[-1], [5, 5])
    none = centers_for(means, np.array([0.0, 1.0, 0.0]))
    np.testing.assert_array_equal(none[0], equal[0])


@pytest.mark.parametrize(
    ("codes", "setting"), [([0, 1, -1, -1], "US"), ([0, 1, 0, -1], "SS"), ([0, 1, 0, 1], "SUP")]
)
def test_the_setting_follows_from_the_labels_of_target_rows(codes, setting):
    labels = Labels(np.array(["a", "b"]), np.array(codes))
    domain = np.array([0, 0, -1, -1])
    assert TrainingRows(np.zeros((4, 1)), labels, domain).setting == setting
