"""Rows in batches give the model of rows in memory, whatever the labels look like."""

from __future__ import annotations

import numpy as np
import pytest

from adaptation.tables import WORDS, rows, table_of, write_pair
from marda.adaptation import Outputs, ReadOptions, adapt, adapt_streaming
from marda.adaptation.adapting import why_in_batches
from marda.io import InputError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

OPTIONS = ReadOptions("y", id="id")


def relative(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


def both(source, target, options=OPTIONS, **parameters):
    """The model in batches and the one of rows in memory."""
    streamed = adapt_streaming(source, target, options, Outputs(target), **parameters)
    held = adapt(source, target, options, **parameters)
    if streamed.model.classifier == "dscm":  # it has no coefficients
        X = rows(50, shift=0.3, seed=3)[0]
        ours, theirs = (r.model.predict_proba(X) for r in (streamed, held))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    else:
        assert relative(streamed.model.coef_, held.model.coef_) < 1e-9
        assert relative(streamed.model.intercept_, held.model.intercept_) < 1e-9
    assert streamed.model.classes_.tolist() == held.model.classes_.tolist()
    assert streamed.model.classes_.dtype == held.model.classes_.dtype
    assert streamed.model.setting_ == held.model.setting_
    assert streamed.preprocessing.features == held.preprocessing.features
    assert streamed.summary.n_labelled_target == held.n_labelled_target
    return streamed, held


@pytest.mark.parametrize("method", ["BL", "MCF", "S1", "S1M", "S1D", "J12D"])
@pytest.mark.parametrize("classifier", ["ridge", "dscm"])
def test_the_model_of_rows_in_memory(tmp_path, method, classifier):
    both(*write_pair(tmp_path), method=method, classifier=classifier)


def every_second(values, gap=None):
    """A gap in place of every second value."""
    return [gap if k % 2 else v for k, v in enumerate(values)]


KINDS = {
    "int8": (lambda y: y.astype(np.int8), None),
    "minus one": (lambda y: y - 1, lambda y: every_second((y - 1).tolist())),
    "float and NaN": (lambda y: y.astype(float), lambda y: every_second(y.tolist(), np.nan)),
    "null": (lambda y: WORDS[y], lambda y: every_second(WORDS[y])),
    "empty": (lambda y: WORDS[y], lambda y: every_second(WORDS[y], "")),
    "dictionary": (lambda y: pa.array(WORDS[y]).dictionary_encode(), lambda y: WORDS[y]),
    "digits": (lambda y: list(map(str, y)), lambda y: every_second(map(str, y), "NA")),
    "bool": (lambda y: y == 0, None),
    "words, numbers": (lambda y: ["x" if v else "7" for v in y], lambda y: every_second([7] * 200)),
    "spaces": (lambda y: [" " * (k % 2) + "abc"[v] for k, v in enumerate(y)], None),
    "cases": (
        lambda y: [str(WORDS[v]).upper() if k % 5 == 0 else WORDS[v] for k, v in enumerate(y)],
        lambda y: every_second(str(WORDS[v]).title() for v in y),
    ),
    "yes": (lambda y: ["yes" if v else "no" for v in y], lambda y: every_second(y.clip(0, 1))),
    "2 ** 53": (lambda y: y + 2**53, None),
    "all null": (lambda y: y, lambda y: pa.nulls(len(y))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_every_kind(tmp_path, kind):
    source, target = KINDS[kind]
    pair = write_pair(tmp_path, source=source, target=target)
    streamed, held = both(*pair, method="S1D")
    assert len(held.model.classes_) == (2 if kind in ("bool", "words, numbers", "yes") else 3)
    about_labels = [[n for n in made.notes if "labels of" in n] for made in (streamed, held)]
    assert about_labels[0] == about_labels[1]


def test_dates_are_no_labels_in_batches(tmp_path):
    days = np.array(["2024-01-01", "2024-02-01", "2024-03-01"], dtype="datetime64[us]")
    pair = write_pair(tmp_path, source=lambda y: days[y])
    with pytest.raises(InputError, match="holds dates, which are no labels where rows are read in"):
        adapt_streaming(*pair, OPTIONS, Outputs())


def test_class_means_with_some_target_labels(tmp_path):
    pair = write_pair(tmp_path, target=lambda y: every_second(WORDS[y]))
    streamed, _ = both(*pair, method="S1C")
    assert streamed.model.setting_ == "SS"


def test_float32_rows_are_summed_as_rows_in_memory_are(tmp_path):
    for name, shift, labels in (("s", 0.0, True), ("t", 5.0, False)):
        X, y = rows(300, shift=1000 + shift)
        table = table_of(X.astype(np.float32), WORDS[y] if labels else None)
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=40)
    both(tmp_path / "s.parquet", tmp_path / "t.parquet", method="S1D")


@pytest.mark.parametrize("method", ["S1D", "J12D"])
def test_scaling_is_algebra_on_statistics(tmp_path, method):
    pair = write_pair(tmp_path, scale=1e5)
    options = ReadOptions("y", id="id", scale="standard")
    streamed, held = both(*pair, options, method=method)
    ours, theirs = (r.preprocessing.steps for r in (streamed, held))
    assert [s.name for s in ours] == [s.name for s in theirs]
    np.testing.assert_allclose([s.center for s in ours], [s.center for s in theirs], rtol=1e-12)
    np.testing.assert_allclose([s.scale for s in ours], [s.scale for s in theirs], rtol=1e-12)


def test_a_constant_column_stays_as_it_is(tmp_path):
    for name, labels in (("s", True), ("t", False)):
        X, y = rows(60)
        X[:, 2] = 0.1
        table = table_of(X, WORDS[y] if labels else None)
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=7)
    options = ReadOptions("y", id="id", scale="standard")
    pair = tmp_path / "s.parquet", tmp_path / "t.parquet"
    result = adapt_streaming(*pair, options, Outputs())
    assert result.preprocessing.steps[2].scale == 1.0
    assert np.isfinite(result.model.coef_).all()


def test_folders_are_their_files(tmp_path):
    source, target = write_pair(tmp_path)
    folder = tmp_path / "source"
    folder.mkdir()
    whole = pq.read_table(source)
    for k, part in enumerate((whole.slice(0, 100), whole.slice(100), whole.slice(0, 0))):
        pq.write_table(part, folder / f"{k}.parquet", row_group_size=30)
    both(folder, target, method="S1D")


def test_text_files_are_not_streamed_and_say_what_to_do(tmp_path):
    source, _ = write_pair(tmp_path)
    (tmp_path / "a.csv").write_text("f0\n" + "1\n" * 100)
    with pytest.raises(InputError, match=r"a\.csv is too large .* convert it to Parquet"):
        why_in_batches(source, tmp_path / "a.csv", OPTIONS, "1kB")
    with pytest.raises(InputError, match=r"a\.csv is not Parquet"):
        adapt_streaming(source, tmp_path / "a.csv", OPTIONS, Outputs())


def test_adapt_decides_by_size_and_memory(tmp_path):
    """Rows that fit are held, Parquet beyond memory comes in batches, and a page needs rows."""
    source, target = write_pair(tmp_path)
    held = adapt(source, target, OPTIONS, method="S1D", memory="24kB")
    told = []
    streamed = adapt(source, target, OPTIONS, method="S1D", memory="23kB", announce=told.append)
    assert (type(held).__name__, type(streamed).__name__) == ("Adapted", "AdaptedFromStatistics")
    assert relative(streamed.model.coef_, held.model.coef_) < 1e-9
    assert told == [streamed.notes[0]]
    assert told[0].startswith("the rows take 24 kB, more than the 23 kB that rows may take")
    page = tmp_path / "r.html", lambda result: "page"
    with pytest.raises(InputError, match="--report shows rows, and rows are not held in memory"):
        adapt(source, target, OPTIONS, memory="23kB", report=page)
    assert not page[0].exists()
    (tmp_path / "a.csv").write_text("f0\n" + "1\n" * 100)
    with pytest.raises(InputError, match=r"a\.csv is too large .* convert it to Parquet"):
        adapt(source, tmp_path / "a.csv", OPTIONS, memory="1kB")
