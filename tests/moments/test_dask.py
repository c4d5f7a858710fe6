"""Dask collections: the fit of all rows, on workers; lazy predictions; workers that die."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from estimators.helpers import fitted
from marda import MDA, MDAClassifier, Moments
from marda.moments import dask as on_dask
from marda.noise import Poisson
from moments.test_accumulate import assert_same
from problems import make_case, relative

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

JOINT = {"max_iter": 3, "tol": 0.0}


@pytest.fixture(autouse=True)
def one_thread():
    """Small problems need no pool; the cluster tests bring their own."""
    with dask.config.set(scheduler="synchronous"):
        yield


def arrays(case, rows, columns=3):
    """X, y and sample_domain, chunked differently where sizes are known."""
    return (
        da.from_array(case.X, chunks=(rows, columns)),
        da.from_array(case.codes, chunks=rows + 3),
        da.from_array(case.domain, chunks=rows),
    )


def unknown(array):
    """The same array with chunk sizes that Dask does not know."""
    return array[da.ones(array.shape[0], chunks=array.chunks[0], dtype=bool)]


def frames(case, n_partitions):
    dd = pytest.importorskip("dask.dataframe")
    table = pd.DataFrame(case.X, columns=list("abcdef")).assign(y=case.codes, where=case.domain)
    table = dd.from_pandas(table, npartitions=n_partitions)
    return table[list("abcdef")], table["y"], table["where"]


@pytest.mark.filterwarnings("ignore:the alternation")
@given(
    method=st.sampled_from(["BL", "MCF", "S1", "S1M", "S1C", "S1D", "J12M", "J12C", "J12D"]),
    classifier=st.sampled_from(["ridge", "dscm"]),
    rows=st.integers(1, 64),
    sources=st.integers(1, 3),
    weight=st.sampled_from([None, "balanced"]),
    seed=st.integers(0, 20),
)
def test_arrays(method, classifier, rows, sources, weight, seed):
    case = make_case("SS", sources=sources, seed=seed)
    case = case.take(np.random.default_rng(seed).permutation(64))
    options = {"classifier": classifier, "class_weight": weight, **JOINT}
    X, y, domain = arrays(case, rows)
    ours = MDAClassifier(method, **options).fit(X, y, sample_domain=domain)
    direct = fitted(MDAClassifier(method, **options), case)
    assert relative(ours.decision_function(case.X), direct.decision_function(case.X)) < 1e-9
    if classifier == "ridge":
        assert relative(ours.coef_, direct.coef_) < 1e-9


def test_unknown_chunk_sizes_and_arrays_in_memory(case):
    direct = fitted(MDAClassifier("S1D"), case)
    X = da.from_array(case.X, chunks=(10, 6))
    y, domain = da.from_array(case.codes, chunks=10), da.from_array(case.domain, chunks=10)
    hidden = [unknown(part) for part in (X, y, domain)]
    assert np.isnan(hidden[0].shape[0])
    ours = MDAClassifier("S1D").fit(hidden[0], hidden[1], sample_domain=hidden[2])
    assert relative(ours.coef_, direct.coef_) < 1e-9
    ours = MDAClassifier("S1D").fit(X, case.codes, sample_domain=case.domain)
    assert relative(ours.coef_, direct.coef_) < 1e-9
    with pytest.raises(ValueError, match=r"y is in memory and the chunk sizes of X are not known"):
        MDAClassifier("S1D").fit(hidden[0], case.codes)
    with pytest.raises(ValueError, match="y has 4 partitions and X has 7, and their sizes"):
        MDAClassifier("S1D").fit(hidden[0], da.from_array(case.codes, chunks=20))
    with pytest.raises(ValueError, match="y has 63 values but X has 64 rows"):
        MDAClassifier("S1D").fit(X, case.codes[:-1])
    with pytest.raises(ValueError, match="y has 63 values but X has 64 rows"):
        MDAClassifier("S1D").fit(X, y[:-1])
    other = unknown(da.from_array(np.abs(case.codes), chunks=((9, 11, 10, 10, 10, 10, 4),)))
    with pytest.raises(ValueError, match=r"y has (9|11) labels but X has 10 rows"):
        MDAClassifier("S1D").fit(hidden[0], other)


def test_empty_partitions(case):
    X, y = (da.from_array(part, chunks=10) for part in (case.X, np.abs(case.codes)))
    X = X.rechunk({1: -1})
    keep = da.from_array((np.arange(64) // 10) % 2 == 0, chunks=10)
    ours = MDAClassifier("S1").fit(X[keep], y[keep])
    direct = fitted_on(case, np.asarray(keep))
    assert relative(ours.coef_, direct.coef_) < 1e-9
    assert ours.predict(X[keep]).compute().shape == (34,)
    with pytest.raises(ValueError, match="all partitions are empty"):
        on_dask.moments_from_dask(X[~keep & keep])


def fitted_on(case, keep):
    return MDAClassifier("S1").fit(case.X[keep], np.abs(case.codes[keep]))


def test_frames(case):
    X, y, domain = frames(case, 5)
    ours = MDAClassifier("S1D").fit(X, y, sample_domain=domain)
    direct = fitted(MDAClassifier("S1D"), case)
    assert relative(ours.coef_, direct.coef_) < 1e-9
    assert ours.feature_names_in_.tolist() == list("abcdef")
    table = pd.DataFrame(case.X, columns=list("abcdef"))
    for name in ("predict", "predict_proba", "decision_function", "transform"):
        lazy = getattr(ours, name)(X)
        assert isinstance(lazy, da.Array)
        np.testing.assert_array_equal(lazy.compute(), getattr(ours, name)(table))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_predictions_stay_lazy_and_blockwise(n_classes, dtype, monkeypatch):
    case = make_case("SS", n_classes=n_classes, seed=2)
    model = fitted(MDAClassifier("S1D"), case)
    X = da.from_array(case.X.astype(dtype), chunks=(10, 2))
    monkeypatch.setattr(dask, "compute", None)  # nothing may be computed here
    for name in ("predict", "predict_proba", "decision_function", "transform"):
        for rows in (X, unknown(X.rechunk({1: -1}))):
            lazy = getattr(model, name)(rows)
            assert isinstance(lazy, da.Array)
            assert lazy.numblocks[0] == X.numblocks[0]
            direct = getattr(model, name)(case.X.astype(dtype))
            assert lazy.dtype == direct.dtype
            np.testing.assert_allclose(
                lazy.compute(), direct, rtol=1e-5 if dtype == np.float32 else 1e-12
            )
    assert model.predict(X).chunks == (X.chunks[0],)
    features = fitted(MDA("S1M"), case).transform(X)
    assert features.chunks == (X.chunks[0], (6,))


def test_a_lazy_result_is_not_made_a_table(case):
    model = fitted(MDA("S1M").set_output(transform="pandas"), case)
    with pytest.raises(ValueError, match="set_output asks for pandas and X is a Dask collection"):
        model.transform(da.from_array(case.X, chunks=(10, 6)))


def test_strings_and_marks(case):
    names = np.array(["cat", "ant", "bee"])
    y = np.where(case.codes >= 0, names[case.codes], None)
    model = MDAClassifier("S1D").fit(
        da.from_array(case.X, chunks=(9, 6)), da.from_array(y, chunks=9), sample_domain=case.domain
    )
    assert model.classes_.tolist() == ["ant", "bee", "cat"]
    X, y = (
        da.from_array(case.X, chunks=(36, 6)),
        np.where(case.domain < 0, -1, 2 * (np.arange(64) % 2) - 1),
    )
    with pytest.raises(ValueError, match="is also a class"):
        MDAClassifier("S1D").fit(X, y, sample_domain=case.domain)


def test_sparse_blocks(case):
    blocks = [dask.delayed(sp.csr_array)(case.X[i : i + 16]) for i in range(0, 64, 16)]
    X = da.concatenate(
        [da.from_delayed(b, (16, 6), meta=sp.csr_array((0, 6))) for b in blocks], axis=0
    )
    ours = on_dask.moments_from_dask(X, case.codes, case.domain)
    assert_same(Moments.from_arrays(case.X, case.codes, case.domain), ours)


def test_what_needs_rows_or_both_domains(case):
    X, y, domain = arrays(case, 20, 6)
    with pytest.raises(ValueError, match=r"X is a Dask collection, and classifier='nn' needs rows"):
        MDAClassifier(classifier="nn").fit(X, y, sample_domain=domain)
    with pytest.raises(ValueError, match="sample_domain has no target rows"):
        MDAClassifier().fit(X, case.codes % 3, sample_domain=da.zeros(64, chunks=20, dtype=int))
    with pytest.raises(ValueError, match="Poisson noise needs non-negative features"):
        MDAClassifier(noise=Poisson()).fit(X, y, sample_domain=domain)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D"):
        MDAClassifier().fit(y, y)
    assert relative(MDA("S1M").fit(X, sample_domain=domain).W_, fitted(MDA("S1M"), case).W_) < 1e-9


def test_never_more_statistics_than_lanes(monkeypatch):
    """400 partitions, 4 lanes: no more than a handful of Grams are alive at a time."""
    alive, most = [0], [0]
    lock = threading.Lock()
    original = on_dask._Partial

    class Counted(original):
        def __init__(self, *args):
            super().__init__(*args)
            with lock:
                alive[0] += 1
                most[0] = max(most[0], alive[0])

        def __del__(self):
            with lock:
                alive[0] -= 1

    monkeypatch.setattr(on_dask, "_Partial", Counted)
    X = da.random.default_rng(0).standard_normal((4000, 3), chunks=(10, 3))
    with dask.config.set(scheduler="threads", num_workers=2):
        moments = on_dask.moments_from_dask(X, lanes=4)
    assert moments.n_rows == 4000
    assert most[0] <= 4 + 2 * 3  # a lane each, and what the two running merges hold


def test_the_scheduler_knows_the_size_of_statistics():
    from dask.sizeof import sizeof

    moments = Moments.from_arrays(np.ones((3, 100)))
    assert sizeof(on_dask._Partial(moments, False)) > 2 * 100 * 100 * 8


def test_lanes_follow_the_data():
    deal = on_dask._lanes
    assert deal(5, 2, {}) == [[0, 1, 2], [3, 4]]
    homes = {i: "ab"[i % 2] for i in range(8)}
    assert deal(8, 4, homes) == [[0, 2], [4, 6], [1, 3], [5, 7]]
    assert deal(3, 1, {0: "a", 1: "b"}) == [[2], [0], [1]]
    every = deal(100, 7, {i: "abc"[i % 3] for i in range(50)})
    assert sorted(i for lane in every for i in lane) == list(range(100))


def test_parquet_on_workers(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    case = make_case("SUP", n_source=90, n_target=3)
    table = pa.table({**{f"f{i}": case.X[:, i] for i in range(6)}, "y": case.codes})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=10)
    ours = on_dask.parquet_on_workers([tmp_path], label="y", domain="a")
    assert_same(Moments.from_arrays(case.X, case.codes, np.zeros(93)), ours)
    assert (ours.domain_names, ours.feature_names[0]) == ({0: "a"}, "f0")
    with pytest.raises(ValueError, match="role must be"):
        on_dask.parquet_on_workers([tmp_path], role="x")


def test_only_one_module_imports_dask():
    root = Path(on_dask.__file__).parents[1]
    uses = re.compile(r'require\("(dask|distributed)|^\s*(import|from) (dask|distributed)\b', re.M)
    users = [p.name for p in root.rglob("*.py") if uses.search(p.read_text(encoding="utf-8"))]
    assert users == ["dask.py"]


@pytest.mark.slow
@pytest.mark.parametrize("address", ["closed", "tcp://256.1.1.1:1", "nonsense"])
def test_no_scheduler_is_one_clear_error(address):
    if address == "closed":
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    begin = time.monotonic()
    with pytest.raises(ConnectionError, match=r"no Dask scheduler answers at .* within 5 s"):
        on_dask.connect(address)
    assert time.monotonic() - begin < 120  # five seconds, on a machine that is busy as well


def slow_block(block, traces, killed):
    """A partition that leaves a trace; the seventh of a worker waits for the death of one."""
    Path(traces, f"{time.time_ns()}-{os.getpid()}").touch()
    while made_by(os.getpid(), traces) >= 7 and not os.path.exists(killed):
        time.sleep(0.01)
    return block


def made_by(worker, traces):
    return sum(name.endswith(f"-{worker}") for name in os.listdir(traces))


@pytest.mark.slow
def test_a_worker_that_dies_changes_nothing(tmp_path):
    rng = np.random.default_rng(0)
    n, d = 4000, 20
    y, where = np.arange(n) % 3, np.where(np.arange(n) % 2, 0, -1)
    rows = rng.standard_normal((n, d)) + y[:, None] + (where < 0)[:, None]
    direct = MDAClassifier("S1D").fit(rows, y, sample_domain=where)
    with (
        dask.config.set(scheduler=None),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        traces, killed = tmp_path / "traces", tmp_path / "killed"
        traces.mkdir()
        X = da.from_array(rows, chunks=(100, d)).map_blocks(
            slow_block, str(traces), str(killed), dtype=float, meta=np.empty((0, 0))
        )
        victim = next(iter(client.run(os.getpid).values()))

        def kill():
            while made_by(victim, traces) < 7:
                time.sleep(0.01)
            os.kill(victim, signal.SIGKILL)
            killed.touch()

        killer = threading.Thread(target=kill)
        killer.start()
        moments = on_dask.moments_from_dask(X, y, where)
        killer.join()
        ours = MDAClassifier("S1D").fit_moments(moments)
    assert len(os.listdir(traces)) > 40  # some partitions were made again
    assert made_by(victim, traces) == 7
    assert moments.n_rows == n
    assert_same(Moments.from_arrays(rows, y, where), moments)
    assert relative(ours.coef_, direct.coef_) < 1e-9


@pytest.mark.slow
def test_worker_processes_fit_predict_and_read(tmp_path):
    """All of it on real workers: persisted rows, frames, lazy predictions, Parquet."""
    case = make_case("SS", n_source=300, n_target=200, seed=3)
    direct = fitted(MDAClassifier("S1D"), case)
    with dask.config.set(scheduler=None), on_dask.start_local(2) as client:
        assert len(client.nthreads()) == 2
        X = da.from_array(case.X, chunks=(25, 6)).persist()
        distributed.wait(X)
        assert len(set(on_dask._homes(X).values())) == 2
        ours = MDAClassifier("S1D").fit(X, case.codes, sample_domain=case.domain)
        assert relative(ours.coef_, direct.coef_) < 1e-9
        np.testing.assert_array_equal(ours.predict(X).compute(), direct.predict(case.X))
        np.testing.assert_allclose(ours.transform(X).compute(), direct.transform(case.X), rtol=1e-8)
        table, y, where = frames(case, 6)
        ours = MDAClassifier("S1D").fit(table, y, sample_domain=where)
        assert relative(ours.coef_, direct.coef_) < 1e-9
        assert ours.predict_proba(table).compute().shape == (500, 3)
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        columns = {f"f{i}": case.X[:, i] for i in range(6)}
        pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=40)
        read = on_dask.parquet_on_workers([tmp_path], role="target")
        assert_same(Moments.from_arrays(case.X, None, np.full(500, -1)), read)
