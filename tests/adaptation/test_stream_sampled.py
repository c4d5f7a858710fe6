"""The default on Parquet in batches: a fair sample, sums over all other rows, the same on Dask."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

import marda
from adaptation.tables import WORDS, rows, write_pair
from marda.adaptation import Cluster, ReadOptions, adapt, adapting
from marda.adaptation.stream import FileRows, draw_from_files, open_parts
from marda.moments.features import FixedFeatures, HeldRows
from marda.selection.inputs import Inputs

pytestmark = pytest.mark.usefixtures("few_draws")

pq = pytest.importorskip("pyarrow.parquet")

OPTIONS = ReadOptions("y", id="id")


@pytest.fixture
def few(monkeypatch):
    """Samples of 60 rows per domain."""
    monkeypatch.setattr(adapting, "SAMPLE_ROWS", 60)


def drawn(folder, n=60, **options):
    pair = write_pair(folder, **options)
    parts, mark, _ = open_parts([pair[0]], pair[1], OPTIONS, "1MB", None)
    return draw_from_files(parts, mark, n)


def test_every_class_has_its_share_and_no_row_is_lost(tmp_path):
    draw = drawn(tmp_path, source=lambda y: WORDS[np.minimum(y, np.arange(len(y)) % 2)])
    source, target = draw.tables(lambda done: None)
    names, counts = np.unique(source["y"].astype(str), return_counts=True)
    assert dict(zip(names, counts, strict=True)) == {"cat": 40, "dog": 20}
    assert (source.n_rows, target.n_rows) == (60, 60)
    assert "y" not in target.columns
    assert draw.counts.tolist() == [[200, 100, 0], [0, 0, 200]]
    # The rest are all other rows of the source: sums of both are those of the file.
    fixed = FixedFeatures(np.ones(2), (Inputs("raw"), np.zeros((7, 2))))
    ours = [name for name in source.columns if name != "y"]
    rest = FileRows(draw, tuple(ours), np.zeros(6), np.ones(6))
    assert rest.counts.tolist() == [160, 80]
    taken = np.column_stack([source[name] for name in ours])
    codes = np.searchsorted(["cat", "dog"], source["y"].astype(str))
    total = rest.sums(fixed) + fixed.added(fixed.nothing(), taken, codes)
    whole = pq.read_table(tmp_path / "s.parquet").to_pandas()
    known = np.searchsorted(["cat", "dog"], whole["y"].astype(str))
    held = HeldRows(whole[ours].to_numpy(), known, np.arange(300), 2).sums(fixed)
    np.testing.assert_allclose(total.hessian, held.hessian, rtol=1e-12)
    np.testing.assert_allclose(total.gradient, held.gradient, atol=1e-12)


def test_the_draw_does_not_depend_on_the_size_of_batches(tmp_path):
    pair = write_pair(tmp_path, group=100)
    tables = []
    for memory in ("1kB", "1MB"):
        parts, mark, _ = open_parts([pair[0]], pair[1], OPTIONS, memory, None)
        tables.append(draw_from_files(parts, mark, 50).tables(lambda done: None)[0])
    for name in tables[0].columns:
        np.testing.assert_array_equal(tables[0][name], tables[1][name])


@pytest.mark.parametrize(
    "labels", [None, lambda y: y, lambda y: y - 1], ids=["words", "numbers", "minus one"]
)
def test_batches_choose_on_a_sample_and_learn_from_all_rows(tmp_path, few, labels):
    source, target = write_pair(tmp_path, n_source=1500, group=300, source=labels)
    told = []
    result = adapt(
        source,
        target,
        OPTIONS,
        memory="1kB",
        out=tmp_path / "p.csv",
        model=tmp_path / "m.marda",
        announce=told.append,
    )
    assert (result.n_source, result.n_target) == (1500, 200)
    assert sum(result.n_predicted.values()) == 200
    assert result.model.n_rows_used_["choices"] == 120
    assert 1500 in result.model.n_rows_used_.values()
    assert any("learned from all 1,500 labelled source rows" in note for note in result.notes)
    assert told == [result.notes[0]]
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert lines[1].startswith("r0,")
    X, y = rows(200, shift=0.7, seed=2)
    right = np.array([line.split(",")[1] for line in lines[1:]])
    truth = (WORDS[y] if labels is None else labels(y)).astype(str)
    assert (right == truth).mean() > 0.75
    loaded = marda.load(tmp_path / "m.marda")
    assert loaded.predict(X).astype(str).tolist() == right.tolist()


def test_rows_that_fit_a_sample_give_the_model_of_rows_in_memory(tmp_path):
    source, target = write_pair(tmp_path)
    held = adapt(source, target, OPTIONS)
    streamed = adapt(source, target, OPTIONS, memory="1kB")
    assert streamed.model.n_rows_used_ == held.model.n_rows_used_ == {"choices": 500}
    X = rows(50, seed=5)[0]
    np.testing.assert_allclose(
        streamed.model.predict_proba(X), held.model.predict_proba(X), atol=1e-9
    )


def test_a_few_target_labels_are_kept(tmp_path, few):
    source, target = write_pair(
        tmp_path, target=lambda y: [WORDS[v] if k < 30 else None for k, v in enumerate(y)]
    )
    result = adapt(source, target, OPTIONS, memory="1kB")
    assert result.n_labelled_target == 30
    assert result.model.setting_ == "SS"


@pytest.mark.slow
def test_a_cluster_gives_the_same_model_even_if_a_worker_is_killed(tmp_path, few, monkeypatch):
    pytest.importorskip("distributed")
    from marda.moments import dask as on_dask

    source, target = write_pair(tmp_path, n_source=3000, group=50)
    held = adapt(source, target, OPTIONS, memory="1kB")
    X = rows(200, seed=5)[0]
    expected = held.model.decision_function(X)
    whole = on_dask.sum_on_workers
    killed = []

    def with_a_death(*args):
        client = on_dask._client()
        victim = next(iter(client.run(os.getpid).values()))

        def kill():
            time.sleep(0.3)
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

        killer = threading.Thread(target=kill)
        killer.start()
        total = whole(*args)
        killer.join()
        return total

    for summed in (whole, with_a_death):
        monkeypatch.setattr(on_dask, "sum_on_workers", summed)
        result = adapt(source, target, OPTIONS, cluster=Cluster())
        np.testing.assert_allclose(result.model.decision_function(X), expected, rtol=1e-8)
    assert killed
