"""The cost model at its borders, and what a refusal says."""

from __future__ import annotations

import itertools
import re

import pytest

from marda._machine import format_bytes
from marda.operators.cost import FEW_ROWS, WORKSPACE, Workload, costs, routes

GB = 10**9


def work(n, d, *, r=None, density=1.0, **options):
    defaults = {
        "n_labelled": n // 2,
        "n_outputs": r or d,
        "n_classes": 10,
        "n_stored": int(n * d * density),
        "itemsize": 8,
        "sparse": density < 1,
    }
    return Workload(n_rows=n, n_features=d, **{**defaults, **options})


def choose(load, *arguments, **options):
    """The route that is tried first, and its cost."""
    return routes(load, *arguments, **options)[0]


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("domain", [True, False])
def test_the_smaller_side_wins(joint, domain):
    options = {"joint": joint, "domain": domain, "coupled": joint and domain}
    assert choose(work(500, 20_000, **options), limit=100 * GB)[0] == "dual"
    assert choose(work(20_000, 500, **options), limit=100 * GB)[0] == "primal"


def test_there_is_one_border():
    """From few rows to many the choice turns once, from dual to primal."""
    chosen = [choose(work(n, 1000), limit=100 * GB)[0] for n in range(50, 5000, 50)]
    assert chosen[0] == "dual"
    assert chosen[-1] == "primal"
    assert sum(a != b for a, b in itertools.pairwise(chosen)) == 1


def test_auto_takes_the_least_work_of_what_fits():
    table = costs(work(2000, 1000))
    chosen, cost = choose(work(2000, 1000), limit=100 * GB)
    assert cost == table[chosen]
    assert cost.flops == min(table[name].flops for name in ("primal", "dual"))


def test_memory_overrules_work():
    """Many rows favour primal until d×d does not fit; then dual."""
    load = work(20_000, 60_000, density=0.001)
    table = costs(load)
    between = int((table["primal"].bytes + table["dual"].bytes) / 2)
    assert table["dual"].bytes < table["primal"].bytes
    assert choose(load, limit=between)[0] == "dual"


def test_text_of_the_papers_size():
    """d×d of 200,000 words takes 320 GB a matrix; the rows of 4,000 documents do not."""
    load = work(4000, 200_000, density=100 / 200_000, domain=True)
    assert costs(load)["primal"].bytes > 320 * GB
    chosen, cost = choose(load, limit=8 * GB)
    assert chosen == "dual"
    assert cost.bytes < 2 * GB


def test_dual_needs_a_positive_diagonal():
    assert choose(work(500, 20_000), limit=100 * GB, dual=False)[0] == "primal"


def test_cg_joins_only_with_pivots():
    sparse = {"density": 1e-4, "sparse": True}
    wide = work(200_000, 200_000, **sparse)
    with pytest.raises(MemoryError):
        choose(wide, limit=64 * GB)
    pivots = work(200_000, 200_000, r=1000, **sparse)
    assert choose(pivots, limit=64 * GB)[0] == "cg"
    # A pivot run that is small anyway still takes a factorisation.
    assert choose(work(3000, 400, r=100), limit=64 * GB)[0] != "cg"


def test_few_rows_precondition_cg_by_all_of_the_dual_route():
    """Its matrices are counted, its work comes first, and the steps that are left are few."""
    for options in ({}, {"r": 100}, {"joint": True}, {"domain": True}, {"density": 0.01}):
        table = costs(work(FEW_ROWS, 3000, **options))
        assert table["cg"].flops > table["dual"].flops
        assert table["cg"].bytes > table["dual"].bytes
        assert table["cg"].flops < costs(work(FEW_ROWS + 1, 3000, **options))["cg"].flops
        more = table["cg"].bytes - costs(work(FEW_ROWS + 1, 3000, **options))["cg"].bytes
        assert 2 * 8 * FEW_ROWS**2 < more < 2 * WORKSPACE
    # No more than features, and only where there is a W₀.
    assert costs(work(500, 500))["cg"].flops < costs(work(501, 500))["cg"].flops
    plain, more = (costs(work(n, 3000, plain=True))["cg"] for n in (FEW_ROWS, FEW_ROWS + 1))
    assert plain.flops < more.flops
    assert plain.bytes < more.bytes


def test_the_loss_of_cg_takes_a_solve_per_row_or_feature():
    def loss(n, d):
        # The same entries to multiply with; the predictor does not depend on n and d.
        return costs(work(n, d, n_stored=10**8, n_classes=0))["cg"].flops

    assert loss(2000, 50_000) == loss(50_000, 2000) < loss(3000, 33_333) == loss(33_333, 3000)


def test_cg_joins_for_a_plain_ridge_of_sparse_rows():
    """W = I has no W₀: 13,500 × 14,400 words are products of the rows, not d×d or n×n."""
    wide = work(13_500, 14_400, density=20 / 14_400, plain=True, n_classes=2)
    chosen, cost = choose(wide, limit=100 * GB)
    assert chosen == "cg"
    assert cost.bytes < GB < costs(wide)["primal"].bytes
    nothing = work(13_500, 14_400, density=20 / 14_400, plain=True, predictor=False)
    assert choose(nothing, limit=100 * GB)[1].flops == 0
    # dense rows, a singular matrix and small fits are factorised
    assert choose(work(13_500, 14_400, plain=True), limit=100 * GB)[0] != "cg"
    assert choose(wide, limit=100 * GB, dual=False)[0] == "primal"
    assert choose(work(400, 300, density=0.1, plain=True), limit=100 * GB)[0] != "cg"


def test_forced_solver():
    for solver in ("primal", "dual", "cg"):
        chosen, cost = choose(work(300, 300), solver, limit=100 * GB)
        assert chosen == solver
        assert cost == costs(work(300, 300))[solver]


def test_refusal_of_a_forced_solver_names_estimate_limit_and_what_fits():
    load = work(500, 20_000)
    table = costs(load)
    limit = int(table["dual"].bytes * 1.5)
    with pytest.raises(MemoryError) as error:
        choose(load, "primal", limit=limit)
    text = str(error.value)
    assert "solver='primal' would take about" in text
    assert format_bytes(table["primal"].bytes) in text
    assert f"{format_bytes(limit)} are free" in text
    assert "500 rows × 20000 features" in text
    advised = re.search(r"solver='(\w+)' would fit", text)[1]
    assert choose(load, advised, limit=limit)[0] == advised
    assert "MARDA_MEMORY" in text


def test_refusal_advises_pivots_that_do_fit():
    load = work(200_000, 200_000, density=1e-4)
    limit = 8 * GB
    with pytest.raises(MemoryError, match=r"this fit .* would take about") as error:
        choose(load, limit=limit)
    text = str(error.value)
    assert f"{format_bytes(limit)} are free" in text
    pivots = int(re.search(r"n_pivots=(\d+) would fit, and so would solver='cg', slowly", text)[1])
    assert choose(work(200_000, 200_000, r=pivots, density=1e-4), limit=limit)[0] == "cg"
    assert choose(load, "cg", limit=limit)[0] == "cg"


def test_refusal_when_only_the_slow_route_fits():
    """Too little room for W₀ of pivots, enough for vectors."""
    load = work(200_000, 200_000, density=1e-4)
    limit = int(costs(load)["cg"].bytes * 1.01)
    with pytest.raises(MemoryError, match="solver='cg' would fit, slowly"):
        choose(load, limit=limit)


def test_refusal_when_nothing_fits():
    with pytest.raises(MemoryError, match="fewer rows or features, or a machine with more memory"):
        choose(work(100_000, 100_000), limit=GB)


def test_the_machine_is_asked_without_a_limit(monkeypatch):
    monkeypatch.setenv("MARDA_MEMORY", "1MB")
    with pytest.raises(MemoryError, match="but 1 MB are free"):
        choose(work(50, 20))
    monkeypatch.setenv("MARDA_MEMORY", "1GB")
    assert choose(work(50, 20))[0] in ("primal", "dual")


def test_bytes_of_rows_count_indices_of_sparse_entries():
    assert work(10, 10).bytes_rows == 800
    assert work(10, 10, density=0.5).bytes_rows == 50 * 12


@pytest.mark.parametrize("density", [1.0, 0.01])
@pytest.mark.parametrize("route", ["primal", "dual", "cg"])
def test_more_to_do_costs_more(route, density):
    def cost(**options):
        return costs(work(2000, 1500, density=density, **options))[route]

    bare = cost(predictor=False)
    predicting = cost()
    joint = cost(joint=True)
    assert joint.flops > predicting.flops >= bare.flops
    assert joint.bytes >= predicting.bytes >= bare.bytes
    assert cost(predictor=False, joint=True) == joint  # a joint model always has a predictor
    if route != "cg":
        assert predicting.flops > bare.flops
        assert predicting.bytes > bare.bytes
        assert cost(domain=True).flops > predicting.flops
    if route == "primal":
        # Coupled terms have no banded form: iterations in place of its matrices.
        coupled = cost(joint=True, coupled=True)
        assert coupled.bytes < joint.bytes
        assert coupled.flops != joint.flops


@pytest.mark.parametrize("route", ["primal", "cg"])
def test_pivots_cost_less_where_W0_is_a_matrix(route):
    full, pivots = (costs(work(3000, 2000, r=r, joint=True))[route] for r in (2000, 50))
    assert pivots.flops < full.flops
    # On the iterative route W₀ is held for pivots alone.
    assert (pivots.bytes < full.bytes) == (route == "primal")


def test_sparse_rows_count_their_entries():
    """Ten times the entries are more work on every route; stored densely they are less."""
    few, many = (costs(work(2000, 1500, density=density, sparse=True)) for density in (0.01, 0.1))
    dense = costs(work(2000, 1500))
    full = costs(work(2000, 1500, sparse=True))
    for route in ("primal", "dual", "cg"):
        assert few[route].flops < many[route].flops
        assert dense[route].flops < full[route].flops


def test_routes_come_by_work_and_each_fits():
    load = work(2000, 1000, r=100)
    table = costs(load)
    found = routes(load, limit=100 * GB)
    assert {name for name, _ in found} == {"primal", "dual", "cg"}
    assert [cost.flops for _, cost in found] == sorted(cost.flops for cost in table.values())
    assert {name for name, _ in routes(work(2000, 1000), limit=100 * GB)} == {"primal", "dual"}
    assert [name for name, _ in routes(work(2000, 1000), limit=100 * GB, dual=False)] == ["primal"]
    # A limit that is just met is met.
    limit = int(max(cost.bytes for cost in table.values())) + 1
    assert len(routes(load, limit=limit)) == 3
    largest = max(table, key=lambda name: table[name].bytes)
    assert largest not in dict(routes(load, limit=int(table[largest].bytes) - 1))
    exact = work(100, 64)
    for solver in ("primal", "dual", "cg"):
        needed = costs(exact)[solver].bytes
        assert needed == int(needed)
        assert routes(exact, solver, limit=int(needed))[0][0] == solver
        with pytest.raises(MemoryError):
            routes(exact, solver, limit=int(needed) - 1)


def test_a_limit_that_is_just_met_by_the_least_route():
    load = work(500, 20_000)
    table = costs(load)
    least = min(("primal", "dual"), key=lambda name: table[name].bytes)
    needed = int(table[least].bytes)
    assert needed == table[least].bytes
    assert routes(load, limit=needed) == [(least, table[least])]
    with pytest.raises(MemoryError, match=rf"this fit \(by '{least}'\) would take about"):
        routes(load, limit=needed - 1)
    # Advice is given where the other route just fits.
    with pytest.raises(MemoryError, match=f"solver='{least}' would fit"):
        routes(load, "primal", limit=needed)
