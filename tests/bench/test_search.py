import pytest

from marda import MDAClassifierCV
from marda.bench import search


def test_a_search_of_fifty_candidates_in_units_of_a_fit():
    figures = search.search(n=60, d=12)
    assert figures["candidates"] == 50
    assert figures["ratio"] == pytest.approx(figures["search_s"] / figures["fit_s"])
    assert "'method':" in figures["best"]


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
