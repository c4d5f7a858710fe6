"""Parquet files → `Moments`: projection, several files, checkpoints, errors that name the file."""

from __future__ import annotations

import numpy as np
import pytest

from marda import Moments
from marda._progress import Progress
from marda.io import InputError
from marda.moments.files import MomentsFileError
from marda.moments.parquet import ParquetRows, moments_from_parquet
from moments.test_accumulate import assert_same

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def table_of(n=500, d=5, dtype=np.float64, labels=None, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) + 3).astype(dtype)
    y = np.array(["no", "yes"], dtype=object)[rng.integers(0, 2, n)] if labels is None else labels
    columns = {f"f{i}": X[:, i] for i in range(d)}
    return X, y, pa.table({**columns, "y": pa.array(y)})


def saved(path, table, row_group_size=100):
    pq.write_table(table, path, row_group_size=row_group_size)
    return path


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
@pytest.mark.parametrize("memory", [None, 1000])
def test_parquet_is_from_arrays(tmp_path, dtype, memory):
    X, y, table = table_of(d=70, dtype=dtype)
    path = saved(tmp_path / "a.parquet", table, 300)
    ours = moments_from_parquet([path], label="y", domain="a", memory=memory, class_grams=True)
    direct = Moments.from_arrays(X.astype(np.float64), y, np.zeros(500), class_grams=True)
    assert_same(direct, ours, tol=1e-5 if dtype == np.float32 else 1e-11)
    assert ours.feature_names.tolist() == [f"f{i}" for i in range(70)]
    assert ours.domain_names == {0: "a"}


def test_spaces_around_labels_mean_nothing(tmp_path):
    X, y, _ = table_of()
    spaced = [" " * (k % 2) + label + "\t" * (k % 3) for k, label in enumerate(y)]
    paths = [
        saved(tmp_path / f"{kind}.parquet", table_of(labels=pa.array(spaced).cast(kind))[2])
        for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()))
    ]
    for path in paths:
        ours = moments_from_parquet([path], label="y")
        assert ours.classes.tolist() == ["no", "yes"]
        assert_same(Moments.from_arrays(X, y, np.zeros(500)), ours)


def test_only_named_columns_are_read(tmp_path, monkeypatch):
    X, y, table = table_of()
    table = table.append_column("note", pa.array(["text"] * 500))
    path = saved(tmp_path / "a.parquet", table)
    asked = []
    original = pq.ParquetFile.iter_batches

    def spy(self, *args, **options):
        asked.append(options["columns"])
        return original(self, *args, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", spy)
    ours = moments_from_parquet([path], label="y", features=["f3", "f1"])
    assert_same(Moments.from_arrays(X[:, [3, 1]], y, np.zeros(500)), ours)
    assert asked == [["f3", "f1", "y"]] * 5
    with pytest.raises(ValueError, match=r"a\.parquet: column 'note' holds string, not numbers"):
        moments_from_parquet([path], label="y")


def test_folders_and_targets_without_labels(tmp_path):
    X, _, table = table_of()
    saved(tmp_path / "b.parquet", table.slice(200))
    saved(tmp_path / "a.parquet", table.slice(0, 200))
    ours = moments_from_parquet([tmp_path], features=[f"f{i}" for i in range(5)], role="target")
    assert_same(Moments.from_arrays(X, None, np.full(500, -1)), ours)


@pytest.mark.parametrize("values", [[0, 1, None], ["u", "v", None], [0.5, 1.5, None]])
def test_missing_labels_mark_target_rows(tmp_path, values):
    labels = [values[i % 3] for i in range(90)]
    if isinstance(values[0], float):
        labels = [None if v is None else float(int(2 * v)) for v in labels]
    X, _, table = table_of(90, labels=labels)
    path = saved(tmp_path / "a.parquet", table, 7)
    ours = moments_from_parquet([path], label="y", role="target")
    y = np.array(labels, dtype=object)
    assert_same(Moments.from_arrays(X, y, np.full(90, -1)), ours)
    with pytest.raises(ValueError, match=r"a\.parquet: y has no label .* for source row"):
        moments_from_parquet([path], label="y")


def test_dictionary_columns_and_declared_classes(tmp_path):
    _, _, table = table_of(60)
    coded = table.set_column(5, "y", table["y"].dictionary_encode())
    path = saved(tmp_path / "a.parquet", coded)
    ours = moments_from_parquet([path], label="y", classes=["maybe", "no", "yes"])
    assert ours.classes.tolist() == ["maybe", "no", "yes"]
    assert ours.n_rows == 60
    with pytest.raises(ValueError, match=r"a\.parquet: y has the label 'yes', which is not in"):
        moments_from_parquet([path], label="y", classes=["no"])


def test_errors_name_the_file_and_the_column(tmp_path):
    _, _, table = table_of()
    a = saved(tmp_path / "a.parquet", table)
    for columns, words in (
        (["f0", "f1", "f2", "f3", "y"], r"b\.parquet: no column 'f4', which .*a\.parquet has"),
        (["f0", "f1", "f2", "f3", "f4"], r"b\.parquet: no column 'y', which"),
    ):
        b = saved(tmp_path / "b.parquet", table.select(columns))
        with pytest.raises(ValueError, match=words):
            moments_from_parquet([a, b], label="y")
    with pytest.raises(ValueError, match=r"no column 'z' for the label; it has 'f0', 'f1'"):
        moments_from_parquet([a], label="z")
    with pytest.raises(ValueError, match=r"none\.parquet: no such file"):
        moments_from_parquet([tmp_path / "none.parquet"])
    (tmp_path / "text.parquet").write_text("a,b\n")
    with pytest.raises(ValueError, match=r"text\.parquet cannot be read as Parquet"):
        moments_from_parquet([tmp_path / "text.parquet"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty is a folder without \*\.parquet files"):
        moments_from_parquet([tmp_path / "empty"])
    with pytest.raises(ValueError, match="no Parquet files were given"):
        moments_from_parquet([])
    with pytest.raises(ValueError, match="role must be 'source' or 'target', got 'both'"):
        moments_from_parquet([a], role="both")
    none = saved(tmp_path / "none.parquet", table.slice(0, 0))
    with pytest.raises(ValueError, match=r"none\.parquet: no rows"):
        moments_from_parquet([none], label="y")
    holes = table.set_column(1, "f1", pa.array([None, 1.0] * 250))
    bad = saved(tmp_path / "bad.parquet", holes)
    with pytest.raises(ValueError, match=r"bad\.parquet: column 'f1' has missing or infinite"):
        moments_from_parquet([bad], label="y")


class Killed(Exception):
    """Stands for the end of the process."""


def interrupted(paths, stop, **options):
    """Run until `stop` row groups are done."""
    groups = []

    def progress(done, total):
        if done and done % 100 == 0:  # not at the start, nor within a row group
            groups.append(done)
        if len(groups) == stop:
            raise Killed

    with pytest.raises(Killed):
        moments_from_parquet(paths, progress=progress, **options)


def test_progress_is_told_from_the_start_and_within_a_row_group(tmp_path):
    _, _, table = table_of(700, d=40)
    path = saved(tmp_path / "one.parquet", table, 700)
    told = []
    options = {"memory": 1000, "progress": lambda *now: told.append(now)}  # batches of 256 rows
    moments_from_parquet([path], label="y", **options)
    done = [done for done, of in told]
    assert {of for _, of in told} == {700}
    assert len(told) == 1 + 3 + 2 + 1  # the start, columns by sixteens, two batches, the end
    assert (done[0], done[-1]) == (0, 700)
    assert done == sorted(done)
    # 700 rows of pages, which 40 columns make 673, count before the first batch of 256 is there.
    assert done[3:5] == [round(700 / 1373 * (673 + part)) for part in (256 / 5, 256)]


def test_time_left_is_known_while_the_first_batch_is_read(tmp_path, monkeypatch):
    """pyarrow decodes pages of many batches before it gives the first one."""
    _, _, table = table_of(700, d=40)
    path = saved(tmp_path / "one.parquet", table, 700)
    clock, display, left = [0.0], Progress(show=False), []
    monkeypatch.setattr("marda._progress.time.monotonic", lambda: clock[0])
    batches = pq.ParquetFile.iter_batches

    def slow(self, *args, **options):
        clock[0] += 0.6  # seconds, of each of three pieces
        for batch in batches(self, *args, **options):
            yield batch
            clock[0] += 0.2

    def progress(done, total):
        display(done / total, "")
        left.append((clock[0], display.left()))

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", slow)
    moments_from_parquet([path], label="y", memory=1000, progress=progress)
    assert left[0] == (0.0, None)
    assert [at for at, _ in left[1:4]] == pytest.approx([0.6, 1.2, 1.8])  # before a row is added
    for at, told in left[1:-1]:
        assert told / 2 <= left[-1][0] - at <= 2 * told, (at, told)


def test_pieces_of_columns_that_are_cut_differently_are_refused(tmp_path, monkeypatch):
    _, _, table = table_of(700, d=40)
    path = saved(tmp_path / "one.parquet", table, 700)
    batches = pq.ParquetFile.iter_batches

    def uneven(self, rows, *, columns, **options):
        yield from batches(self, 100 if "y" in columns else 300, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", uneven)
    with pytest.raises(InputError, match="columns come in batches of different lengths"):
        moments_from_parquet([path], label="y")


@pytest.mark.parametrize("stop", [1, 3, 5, 6])
def test_a_checkpoint_continues_from_the_last_row_group(tmp_path, monkeypatch, stop):
    X, y, table = table_of(700)
    paths = [
        saved(tmp_path / "a.parquet", table.slice(0, 300)),
        saved(tmp_path / "b.parquet", table.slice(300)),
    ]
    options = {"label": "y", "domain": "a", "checkpoint": tmp_path / "go"}
    interrupted(paths, stop, **options)
    assert (tmp_path / "go").exists()
    read = []
    original = ParquetRows.batches

    def spy(self, file, group, told):
        read.append((file, group))
        return original(self, file, group, told)

    monkeypatch.setattr(ParquetRows, "batches", spy)
    ours = moments_from_parquet(paths, **options)
    assert len(read) == 7 - stop
    assert_same(Moments.from_arrays(X, y, np.zeros(700)), ours)
    assert ours.domain_names == {0: "a"}
    assert not (tmp_path / "go").exists()


def test_checkpoints_of_other_work_are_refused(tmp_path):
    _, _, table = table_of()
    path = saved(tmp_path / "a.parquet", table)
    options = {"label": "y", "checkpoint": tmp_path / "go"}
    interrupted([path], 2, **options)
    for changed, words in (
        ({"features": ["f0"]}, "other columns"),
        ({"role": "target"}, "other arguments"),
        ({"class_grams": True}, "other arguments"),
    ):
        with pytest.raises(MomentsFileError, match=f"go: this checkpoint was made from {words}"):
            moments_from_parquet([path], **options, **changed)
    saved(path, table.slice(0, 499))
    with pytest.raises(MomentsFileError, match="go: this checkpoint was made from other files"):
        moments_from_parquet([path], **options)
    Moments.from_arrays(np.eye(2)).save(tmp_path / "go")
    with pytest.raises(MomentsFileError, match="go: a moments file, not a checkpoint"):
        moments_from_parquet([path], **options)


def test_without_pyarrow(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"pip install 'marda\[parquet\]'"):
        moments_from_parquet(["a.parquet"])


def test_damage_names_the_file(tmp_path):
    _, _, table = table_of()
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=100, write_page_checksum=True, use_dictionary=False)
    whole = path.read_bytes()
    for at in (100, 2000, len(whole) // 2):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with pytest.raises(InputError, match=r"a\.parquet: row group \d cannot be read"):
            moments_from_parquet([path], label="y")
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"a\.parquet cannot be read as Parquet"):
        moments_from_parquet([path], label="y")
    twice = table.rename_columns(["f0", *table.column_names[1:-1], "f0"])
    pq.write_table(twice, path)
    with pytest.raises(InputError, match=r"a\.parquet has two columns 'f0': rename one"):
        moments_from_parquet([path])
