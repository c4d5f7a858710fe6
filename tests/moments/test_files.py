"""Moments files: what was saved comes back; anything else is one error that names the file."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marda import MDAClassifier, Moments
from marda.io.container import start_digest
from marda.moments.files import MomentsFileError, merge_files, read
from measured import traced_peak
from moments.test_accumulate import assert_same
from problems import make_case, moments_of, relative

LABELS = {
    "int": [0, 1],
    "negative": [-5, 7],
    "float": [1.0, 2.0],
    "str": ["ä", "b"],
    "bool": [False, True],
    "object": np.array(["x", "y"], dtype=object),
}


def example(**options) -> Moments:
    table = pd.DataFrame(np.arange(12.0).reshape(6, 2) ** 2, columns=["age", "größe"])
    return Moments.from_arrays(table, [0, 1, 0, 1, -1, -1], [0, 0, 0, 0, -1, -1], **options)


def forged(data: bytes, change) -> bytes:
    """The file with another header and a checksum that fits."""
    length = int.from_bytes(data[:8], "little")
    table, rest = json.loads(data[8 : 8 + length]), data[8 + length :]
    metadata = table.pop("__metadata__")
    header = json.loads(metadata["content"])
    change(header, table)
    metadata["content"] = json.dumps(header)
    digest = start_digest(metadata, table)
    digest.update(rest)
    metadata["sha256"] = digest.hexdigest()
    text = json.dumps({"__metadata__": metadata, **table}).encode()
    return len(text).to_bytes(8, "little") + text + rest


# The first format, of which a file is kept --------------------------------------------------------

FORMAT_1 = (Path(__file__).parents[1] / "data" / "format-1.moments").read_bytes()


def forged_1(data: bytes, change) -> bytes:
    """The same for a file of format 1."""
    version, length, _ = struct.unpack_from("<IIQ", data, 8)
    header = json.loads(data[24 : 24 + length])
    change(header, header["arrays"])
    text = json.dumps(header).encode()
    rest = data[24 + length : -32]
    total = 24 + len(text) + len(rest) + 32
    body = data[:8] + struct.pack("<IIQ", version, len(text), total) + text + rest
    return body + hashlib.sha256(body).digest()


def test_a_file_of_format_1_is_read_and_written_anew(tmp_path):
    (tmp_path / "a").write_bytes(FORMAT_1)
    wanted = replace(example(class_grams=True), domain_names={0: "north", -1: "here"})
    for name in ("a", "b"):
        held, header = read(tmp_path / name)
        assert_same(wanted, held, tol=0)
        assert held.feature_names.tolist() == ["age", "größe"]
        assert held.domain_names == wanted.domain_names
        assert (header["rows"], header["features"], header["min_group"]) == (6, 2, 2)
        held.save(tmp_path / "b", min_group=2)
    merged, promised = merge_files([str(tmp_path / "a"), str(tmp_path / "b")])
    assert (merged.n_rows, promised) == (12, 2)


@given(place=st.integers(0, 10**6), bit=st.integers(0, 7), cut=st.booleans())
def test_a_damaged_file_of_format_1(tmp_path, place, bit, cut):
    place %= len(FORMAT_1)
    data = bytearray(FORMAT_1)
    data[place] ^= 1 << bit
    (tmp_path / "a").write_bytes(FORMAT_1[:place] if cut else bytes(data))
    words = "a: (truncated|not a moments file)" if cut else "a: "
    with pytest.raises(MomentsFileError, match=words):
        Moments.load(tmp_path / "a")


# The present format -------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("class_grams", [False, True])
def test_what_was_saved_comes_back(tmp_path, labels, class_grams):
    values = np.asarray(LABELS[labels])
    X = np.random.default_rng(0).standard_normal((8, 3))
    saved = Moments.from_arrays(
        X, values[np.arange(8) % 2], np.arange(8) % 2 - 1, unlabeled=None, class_grams=class_grams
    )
    saved = replace(saved, domain_names={-1: "klinik ü", 0: "b"})
    saved.save(tmp_path / "a.moments")
    held = Moments.load(tmp_path / "a.moments")
    assert held.classes.dtype.kind == saved.classes.dtype.kind
    assert_same(saved, held, tol=0)
    np.testing.assert_array_equal(held.shift, saved.shift)
    assert held.domain_names == saved.domain_names
    assert held.feature_names is None
    assert os.listdir(tmp_path) == ["a.moments"]


def test_names_counts_and_group_sizes_are_in_the_file(tmp_path):
    moments = example()
    moments.save(tmp_path / "a", min_group=2)
    held, header = read(tmp_path / "a")
    assert held.feature_names.tolist() == ["age", "größe"]
    assert (header["rows"], header["features"], header["min_group"]) == (6, 2, 2)
    assert b"pickle" not in (tmp_path / "a").read_bytes()
    without = replace(moments, gram=None, gram_labelled=None)
    without.save(tmp_path / "b")
    assert Moments.load(tmp_path / "b").gram is None


def test_the_same_statistics_give_the_same_bytes(tmp_path):
    example().save(tmp_path / "a")
    example().save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_small_groups_are_refused(tmp_path):
    with pytest.raises(MomentsFileError, match=r"a: not written: domain -1, no label has 2 rows"):
        example().save(tmp_path / "a", min_group=3)
    with pytest.raises(ValueError, match="min_group must be a whole number, at least 1, got 0"):
        example().save(tmp_path / "a", min_group=0)
    assert os.listdir(tmp_path) == []


@given(cut=st.integers(0, 10**6))
def test_every_truncation_is_found(tmp_path, cut):
    path = tmp_path / "a.moments"
    example().save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: cut % len(whole)])
    with pytest.raises(MomentsFileError, match=r"a\.moments: (truncated|not a moments file)"):
        Moments.load(path)


@given(place=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_every_altered_bit_is_found(tmp_path, place, bit):
    path = tmp_path / "a.moments"
    example().save(path)
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= 1 << bit
    path.write_bytes(bytes(data))
    with pytest.raises(MomentsFileError, match=r"a\.moments: "):
        Moments.load(path)


def test_appended_bytes_are_found(tmp_path):
    example().save(tmp_path / "a")
    with open(tmp_path / "a", "ab") as stream:
        stream.write(b"x")
    with pytest.raises(MomentsFileError, match=r"a: altered: \d+ bytes where \d+ were written"):
        Moments.load(tmp_path / "a")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"a,b\n1,2\n" * 9, b"\x89PNG\r\n\x1a\n"])
def test_foreign_files(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(MomentsFileError, match=r"a: not a moments file\."):
        Moments.load(tmp_path / "a")


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(MomentsFileError, match=r"none: No such file"):
        Moments.load(tmp_path / "none")
    with pytest.raises(MomentsFileError, match=f"{tmp_path.name}: "):
        Moments.load(tmp_path)


def test_files_of_the_future(tmp_path):
    example().save(tmp_path / "a")
    data = (tmp_path / "a").read_bytes()
    # Before the checksum: its other fields may mean something else.
    data = data.replace(b'"format_version": "2"', b'"format_version": "3"')
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(MomentsFileError, match=r"a: moments format 3.*reads format 2; a newer"):
        Moments.load(tmp_path / "a")


def _set(**values):
    return lambda header, arrays: header.update(values)


LIES = [
    _set(features=10**12),
    _set(features=3),
    _set(features=-1),
    _set(features="2"),
    _set(domains=[0]),
    _set(labels=[0, 0, 9]),
    _set(labels=[0, 0, 0]),
    _set(domains=[0, 0, 0], labels=[0, 0, 1]),
    _set(rows=7),
    _set(min_group=5),
    _set(feature_names=["a"]),
    _set(feature_names=[1, 2]),
    _set(classes={"dtype": "object", "values": [{}, []]}),
    _set(classes={"dtype": "int64", "values": [1, 0]}),
    _set(classes={"dtype": "V8", "values": [0, 1]}),
    _set(domain_names=[]),
    lambda header, arrays: header.pop("classes"),
]
TABLE_LIES = [
    lambda header, arrays: arrays["gram"].update(shape=[10**9, 10**9]),
    lambda header, arrays: arrays["gram"].update(dtype="I64"),
    lambda header, arrays: arrays["shift"].update(shape=[2, 1]),
    lambda header, arrays: arrays.update(grams=arrays.pop("gram")),
    lambda header, arrays: arrays["sums"].pop("shape"),
]
LIES_1 = [
    _set(arrays=[]),
    _set(arrays=[{"name": "gram", "shape": [10**9, 10**9]}]),
    lambda header, arrays: arrays.append(arrays[-1]),
    lambda header, arrays: arrays.pop(),
    lambda header, arrays: header.pop("arrays"),
]


@pytest.mark.parametrize(
    ("forge", "change"),
    [
        *((forged, change) for change in (*LIES, *TABLE_LIES)),
        *((forged_1, change) for change in (*LIES, *LIES_1)),
    ],
)
def test_headers_that_lie_are_refused_before_memory_is_taken(tmp_path, forge, change):
    path = tmp_path / "a"
    path.write_bytes(FORMAT_1)
    if forge is forged:
        example().save(path)
    path.write_bytes(forge(path.read_bytes(), change))

    def load():
        with pytest.raises(MomentsFileError, match="a: not a valid moments file"):
            Moments.load(path)

    assert traced_peak(load) < 5e6


def test_arrays_of_another_length_are_told_as_such(tmp_path):
    example().save(tmp_path / "a")
    data = forged((tmp_path / "a").read_bytes(), lambda header, arrays: arrays.clear())
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(MomentsFileError, match=r"a: altered: \d+ bytes where \d+ were written"):
        Moments.load(tmp_path / "a")


def test_a_model_file_is_not_a_moments_file(tmp_path):
    case = make_case("US", seed=4)
    MDAClassifier("BL").fit(case.X, case.codes, sample_domain=case.domain).save(tmp_path / "a")
    with pytest.raises(MomentsFileError, match=r"a: not a moments file\."):
        Moments.load(tmp_path / "a")


def test_a_file_is_compared_with_memory_before_it_is_read(tmp_path, monkeypatch):
    example().save(tmp_path / "a")
    monkeypatch.setenv("MARDA_MEMORY", "1KB")
    with pytest.raises(MomentsFileError, match=r"a: .* long, and 1 kB of memory.*MARDA_MEMORY"):
        Moments.load(tmp_path / "a")


def test_values_that_are_not_finite_are_refused(tmp_path):
    bad = replace(example(), gram=np.full((2, 2), np.nan))
    bad.save(tmp_path / "a")
    with pytest.raises(MomentsFileError, match="gram has values that are not finite"):
        Moments.load(tmp_path / "a")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a"
    example().save(path)
    before = path.read_bytes()

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        example(class_grams=True).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a"]


def test_labels_that_cannot_be_written(tmp_path):
    odd = replace(example(), classes=np.array([b"a", b"b"]))
    with pytest.raises(ValueError, match="labels of type"):
        odd.save(tmp_path / "a")
    odd = replace(example(), classes=np.array([1, None], dtype=object))
    with pytest.raises(ValueError, match="neither numbers nor strings"):
        odd.save(tmp_path / "a")


@pytest.mark.parametrize("method", ["BL", "S1D", "S1M", "J12C", "J12D"])
@pytest.mark.parametrize("classifier", ["ridge", "dscm"])
def test_merged_files_are_one_fit(tmp_path, method, classifier):
    """Three owners, each with a file; the model of all rows."""
    case = make_case("SS", sources=2, seed=4)
    options = {"classifier": classifier, "max_iter": 3, "tol": 1.0}
    paths = []
    for number in (0, 1, -1):
        rows = case.domain == number
        part = Moments.from_arrays(case.X[rows], case.codes[rows], case.domain[rows])
        paths.append(str(tmp_path / f"{number}.moments"))
        part.save(paths[-1])
    ours = MDAClassifier(method, **options).fit_moments(merge_files(paths)[0])
    direct = MDAClassifier(method, **options).fit(case.X, case.codes, sample_domain=case.domain)
    assert relative(ours.decision_function(case.X), direct.decision_function(case.X)) < 1e-9
    if classifier == "ridge":
        assert relative(ours.coef_, direct.coef_) < 1e-9


def test_domains_go_by_their_names(tmp_path):
    """Every owner numbers its own domain 0: names tell them apart."""
    case = make_case("US", sources=2, seed=4)
    paths = []
    for number, name in ((0, "north"), (1, "south"), (-1, "here")):
        rows = case.domain == number
        y = case.codes[rows] if number >= 0 else None
        part = Moments.from_arrays(case.X[rows], y, np.full(rows.sum(), min(number, 0)))
        part = replace(part, domain_names={min(number, 0): name})
        paths.append(str(tmp_path / name))
        part.save(paths[-1])
    merged, _ = merge_files(paths)
    assert merged.domain_names == {0: "north", 1: "south", -1: "here"}
    assert_same(moments_of(case), merged)
    backwards, _ = merge_files(paths[::-1])
    assert backwards.domain_names == merged.domain_names
    assert_same(merged, backwards)
    copy = tmp_path / "copy"
    copy.write_bytes(Path(paths[0]).read_bytes())
    assert merge_files([paths[0], str(copy)])[0].domain_names == {0: "north"}
    plain = moments_of(make_case("US", seed=4)) + merged  # numbers without a name stay
    assert plain.domain_names == {1: "north", 2: "south", -2: "here"}
    assert sorted(set(plain.domains.tolist())) == [-2, -1, 0, 1, 2]


def test_files_that_do_not_belong_together(tmp_path):
    def saved(name, columns, labels, **options):
        X = pd.DataFrame(np.eye(2), columns=columns)
        Moments.from_arrays(X, labels, **options).save(tmp_path / name)
        return str(tmp_path / name)

    a = saved("a", ["u", "v"], ["x", "y"])
    for name, columns, labels, words in (
        ("b", ["u", "w"], ["x", "y"], r"b: cannot be merged with .*a: .*column 1 is 'v' and 'w'"),
        ("c", ["u", "v"], ["x", "z"], r"c: its label names differ from those of .*a: 'z' is in"),
        ("d", ["u", "v"], ["x", "x"], r"d: its label names differ .*'y' is in .*a and not in .*d"),
    ):
        with pytest.raises(MomentsFileError, match=words):
            merge_files([a, saved(name, columns, labels)])
    with pytest.raises(MomentsFileError, match=r"e: cannot be merged .*only one .*class_grams"):
        merge_files([a, saved("e", ["u", "v"], ["x", "y"], class_grams=True)])
    Moments.from_arrays(np.eye(3), ["x", "y", "x"]).save(tmp_path / "f")
    with pytest.raises(MomentsFileError, match=r"f: cannot be merged .*f has no column names"):
        merge_files([a, str(tmp_path / "f")])
    with pytest.raises(MomentsFileError, match="no moments files were given"):
        merge_files([])
    with pytest.raises(MomentsFileError, match=r"a is named twice, so that its rows would count"):
        merge_files([a, a])
    (tmp_path / "link").symlink_to(a)
    with pytest.raises(MomentsFileError, match=r"link is named twice, also as .*a, so that its"):
        merge_files([a, str(tmp_path / "link")])
