"""Lines of text say what the figures say."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from marda.adaptation.lines import predicted_shares


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ({"a": 1, "b": 1, "c": 1}, "a: 33%, b: 33%, c: 33%"),
        ({"a": 29, "b": 71}, "a: 29%, b: 71%"),
        ({"a": 998, "b": 2, "c": 0}, "a: >99%, b: <1%, c: 0%"),
        ({"a": 3, "b": 0}, "a: 100%, b: 0%"),
        ({"a": 0, "b": 0}, "a: 0%, b: 0%"),
    ],
)
def test_a_class_with_rows_is_not_none(counts, told):
    assert predicted_shares(SimpleNamespace(n_predicted=counts)) == told
