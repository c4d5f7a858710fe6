import pytest

from marda import MDAClassifierCV, datasets
from marda._machine import machine_facts
from marda.benchmarks.speed import cases


def test_a_search_of_fifty_candidates_in_units_of_a_fit():
    figures = cases.search(n=60, d=12)
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
    cases.search(n=30, d=40, many_scales=True)
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
    cases.search(n=60, d=12)
    assert [model.candidates for model in seen] == [cases.GRID]


@pytest.fixture
def tasks_run(monkeypatch):
    """The tasks that were measured; each costs 1 s by auto and 4 s by the d×d route."""
    seen = []

    def measured(data, pair):
        seen.append(pair)
        if len(seen) > 5:
            raise KeyboardInterrupt
        return {"task": pair, "auto_s": 1.0, "primal_s": 4.0, "least_agreement": 0.5 + len(seen)}

    monkeypatch.setattr(cases, "_measure_task", measured)
    monkeypatch.setattr(datasets, "load", lambda *args: None)
    return seen


def test_sums_over_tasks(tasks_run):
    figures = cases.oc10(tasks=3)
    assert (figures["marda_s"], figures["reference_s"], figures["ratio"]) == (3.0, 12.0, 4.0)
    assert figures["least_agreement"] == 1.5
    assert [t["task"] for t in figures["by_task"]] == cases.PAIRS[:3]


def test_ended_run_goes_on_where_it_stopped(tasks_run, tmp_path):
    keep = tmp_path / "new" / "tasks.sqlite"
    with pytest.raises(KeyboardInterrupt):
        cases.oc10(tasks=7, keep=str(keep))
    del tasks_run[:]
    assert len(cases.oc10(tasks=7, keep=str(keep))["by_task"]) == 7
    assert tasks_run == cases.PAIRS[5:7]


def test_tasks_of_another_machine_are_measured_again(tasks_run, tmp_path, monkeypatch):
    keep = tmp_path / "tasks.sqlite"
    with monkeypatch.context() as patch:
        patch.setattr(cases, "machine_facts", lambda: {**machine_facts(), "cores": 1000})
        cases.oc10(tasks=1, keep=str(keep))
    cases.oc10(tasks=1, keep=str(keep))
    cases.oc10(tasks=1, keep=str(keep))
    assert tasks_run == cases.PAIRS[:1] * 2
