import pytest

from marda import MDAClassifierCV
from marda.bench import search


def test_a_search_of_fifty_candidates_in_units_of_a_fit():
    figures = search.search(n=60, d=12)
    assert figures["candidates"] == 50
    assert figures["ratio"] == pytest.approx(figures["search_s"] / figures["fit_s"])
    assert "'method':" in figures["best"]


def test_features_of_many_scales(monkeypatch):
    """Their rows are of unit length, and no multiple of the noise is a ridge."""
    seen = []
    fit = MDAClassifierCV.fit
    monkeypatch.setattr(
        MDAClassifierCV,
        "fit",
        lambda self, X, *args, **kw: (seen.append(X), fit(self, X, *args, **kw))[1],
    )
    search.search(n=30, d=40, many_scales=True)
    squares = (seen[0] ** 2).sum(0)
    assert squares.max() > 1000 * squares.min()
    assert (seen[0] ** 2).sum(1) == pytest.approx(1)


def test_the_search_is_the_users_own(monkeypatch):
    """What is timed is the fit of MDAClassifierCV, its refit included."""
    seen = []
    fit = MDAClassifierCV.fit
    monkeypatch.setattr(
        MDAClassifierCV,
        "fit",
        lambda self, *args, **kw: (seen.append(self), fit(self, *args, **kw))[1],
    )
    search.search(n=60, d=12)
    assert [model.candidates for model in seen] == [search.GRID]
