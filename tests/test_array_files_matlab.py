"""MATLAB files: as scipy reads them where they are whole, one sentence where they are not."""

from __future__ import annotations

import struct
import warnings
import zlib

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from marda._array_files import MatlabError, read_mat

TYPES = ["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?"]


def same(ours, theirs):
    if sp.issparse(theirs):
        return sp.issparse(ours) and abs(ours - theirs).sum() == 0 and ours.shape == theirs.shape
    if theirs.dtype.kind == "O":
        pairs = zip(ours.ravel(), theirs.ravel(), strict=True)
        return ours.shape == theirs.shape and all(same(a, b) for a, b in pairs)
    np.testing.assert_array_equal(ours, theirs)
    return ours.dtype == theirs.dtype and ours.shape == theirs.shape


def check(path, names=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer scipy announces another sparse type
        theirs = scipy.io.loadmat(path, variable_names=names)
    theirs = {k: v for k, v in theirs.items() if not k.startswith("__")}
    ours = read_mat(path, names)
    assert set(ours) == set(theirs)
    assert all(same(ours[k], theirs[k]) for k in theirs)


@pytest.mark.parametrize("packed", [False, True])
@settings(max_examples=40, deadline=None)
@given(
    array=st.sampled_from(TYPES).flatmap(
        lambda t: hnp.arrays(t, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5))
    )
)
def test_numbers_of_every_type_are_as_scipy_reads_them(tmp_path_factory, packed, array):
    path = tmp_path_factory.mktemp("mat") / "a.mat"
    scipy.io.savemat(path, {"a": array, "twice": array}, do_compression=packed)
    check(path)
    check(path, ["twice"])


@pytest.mark.parametrize("packed", [False, True])
def test_text_cells_and_sparse_matrices_are_as_scipy_reads_them(tmp_path, packed):
    dense = np.arange(12.0).reshape(3, 4) * (np.arange(4) % 2)
    content = {
        "words": np.array(["one", "three"]),
        "word": "ü€",
        "rare": "one",
        "nothing": "",
        "cells": np.array(["a", "bcd", 3.5, np.ones((2, 2)), ""], dtype=object),
        "nested": np.array([np.array(["x", 1], dtype=object), "y"], dtype=object),
        "sparse": sp.csc_array(dense),
        "bits": sp.csc_array(dense > 0),
        "empty": sp.csc_array((4, 3)),
        "four": np.arange(24).reshape(2, 3, 2, 2),
        "a_name_of_thirty_one_characters": 1.0,
    }
    scipy.io.savemat(tmp_path / "a.mat", content, do_compression=packed)
    check(tmp_path / "a.mat")


def test_level_4_is_as_scipy_reads_it(tmp_path):
    dense = np.arange(12.0).reshape(3, 4)
    content = {"a": dense, "b": dense.astype(np.uint8), "w": "word", "s": sp.csc_array(dense)}
    scipy.io.savemat(tmp_path / "a.mat", content, format="4")
    check(tmp_path / "a.mat")
    check(tmp_path / "a.mat", ["b"])


def test_structures_and_complex_numbers_are_left_out(tmp_path):
    content = {"x": np.ones((2, 2)), "s": {"field": 1.0}, "z": np.array([1j, 2])}
    for form in ("5", "4"):
        if form == "4":
            del content["s"]
        scipy.io.savemat(tmp_path / "a.mat", content, format=form)
        assert list(read_mat(tmp_path / "a.mat")) == ["x"]


def test_a_file_of_a_big_endian_machine(tmp_path):
    """Written here by hand: scipy writes in the order of this machine only."""

    def element(kind, data):
        return struct.pack(">II", kind, len(data)) + data + b"\0" * (-len(data) % 8)

    body = element(6, struct.pack(">II", 6, 0)) + element(5, struct.pack(">ii", 1, 2))
    body += struct.pack(">HH", 1, 1) + b"x\0\0\0" + element(9, struct.pack(">dd", 1.5, -2))
    start = b"MATLAB 5.0".ljust(124) + struct.pack(">H", 0x100) + b"MI"
    (tmp_path / "a.mat").write_bytes(start + element(14, body))
    ours = read_mat(tmp_path / "a.mat")["x"]
    np.testing.assert_array_equal(ours, [[1.5, -2]])
    np.testing.assert_array_equal(ours, scipy.io.loadmat(tmp_path / "a.mat")["x"])
    assert ours.dtype.isnative


@pytest.fixture
def plain(tmp_path):
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"x": np.arange(600.0).reshape(20, 30)})
    return path


def refused(path, words, **options):
    with pytest.raises(MatlabError, match=words):
        read_mat(path, **options)


def test_what_is_not_whole_is_refused(plain):
    data = plain.read_bytes()
    n = len(data)  # the numbers between the ends are alike
    for cut in (*range(1, 260), *range(260, n - 20, 61), *range(n - 20, n)):
        plain.write_bytes(data[:cut])
        if cut != 128:  # a file without variables
            refused(plain, "it ends early|not whole|not begin|longer")


def test_a_changed_length_type_or_dimension_is_refused(plain):
    data = bytearray(plain.read_bytes())
    for at in range(128, 200):
        for bit in range(8):
            data[at] ^= 1 << bit
            plain.write_bytes(data)
            data[at] ^= 1 << bit
            try:
                values = [*read_mat(plain).values()]
            except MatlabError:
                continue
            # A name; flags that make it a structure, which is left out; or nothing that matters.
            assert values == [] or values[0].size == 600


def test_declared_sizes_are_refused_before_memory_is_taken(plain, tmp_path):
    refused(plain, "more than 5 kB, the memory there is: raise MARDA_MEMORY", limit=5000)
    data = bytearray(plain.read_bytes())
    assert struct.unpack_from("<ii", data, 160) == (20, 30)
    struct.pack_into("<ii", data, 160, 2**30, 2**30)
    plain.write_bytes(data)
    refused(plain, "impossible dimensions")
    inner = struct.pack("<II", 14, 2**31) + b"\0" * 100
    packed = zlib.compress(inner)
    plain.write_bytes(data[:128] + struct.pack("<II", 15, len(packed)) + packed)
    refused(plain, "more bytes than the file can hold")


def test_a_bomb_is_refused(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"x": np.zeros((2000, 2000))}, do_compression=True)
    assert (tmp_path / "a.mat").stat().st_size < 10**5
    refused(tmp_path / "a.mat", "more than 10 MB", limit=10**7)


def test_the_checksum_of_a_compressed_variable_is_checked(tmp_path):
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"x": np.arange(600.0)}, do_compression=True)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    refused(path, "incorrect data check")


def test_a_version_7_3_file_says_what_to_do(tmp_path):
    path = tmp_path / "a.mat"
    path.write_bytes(b"MATLAB 7.3".ljust(124) + struct.pack("<H", 0x200) + b"IM" + b"\x89HDF")
    refused(path, r"7\.3 \(HDF5\): save it with -v7")


def test_cells_without_end_are_refused(plain):
    def element(kind, data):
        return struct.pack("<II", kind, len(data)) + data + b"\0" * (-len(data) % 8)

    body = b""
    for _ in range(40):
        head = element(6, struct.pack("<II", 1, 0)) + element(5, struct.pack("<ii", 1, 1))
        body = element(14, head + element(1, b"") + body)
    plain.write_bytes(plain.read_bytes()[:128] + body)
    refused(plain, "cells in cells|fewer cells")


def element(kind, data):
    """A tag and its bytes, as level 5 lays them out."""
    return struct.pack("<II", kind, len(data)) + data + b"\0" * (-len(data) % 8)


def matrix(name, shape, *parts, kind=6, flags=0):
    body = element(6, struct.pack("<II", kind | flags << 8, 0))
    body += element(5, struct.pack(f"<{len(shape)}i", *shape)) + element(1, name.encode())
    return element(14, body + b"".join(parts))


def level5(path, *elements, version=0x0100):
    header = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", version) + b"IM"
    path.write_bytes(header + b"".join(elements))
    return path


NUMBER = element(9, struct.pack("<d", 1.5))
DOUBLE = matrix("a", (1, 1), NUMBER)


def test_a_file_made_by_hand_is_as_scipy_reads_it(tmp_path):
    path = level5(tmp_path / "a.mat", DOUBLE)
    check(path)
    assert read_mat(path)["a"] == 1.5
    text = matrix("t", (1, 2), element(17, "hé".encode("utf-16-le")), kind=4)
    assert read_mat(level5(path, text))["t"] == "hé"
    assert read_mat(level5(path, matrix("f", (1, 1), kind=17), DOUBLE)) == {"a": 1.5}


@pytest.mark.parametrize(
    ("elements", "words"),
    [
        ([DOUBLE, DOUBLE], "it holds 'a' twice"),
        ([element(15, zlib.compress(DOUBLE[:-4]))], "compressed variable ends early"),
        ([element(15, zlib.compress(DOUBLE + b"more"))], "longer than it declares"),
        ([matrix("t", (1, 9), element(16, b"ab"), kind=4)], "2 characters where dimensions"),
        ([matrix("s", (1, 1, 1), kind=5)], "a sparse matrix has two dimensions"),
        ([matrix("c", (1, 99), DOUBLE, kind=1)], "fewer cells than its dimensions"),
        ([matrix("c", (1, 1), NUMBER, kind=1)], "a cell is not a matrix"),
    ],
)
def test_contradictions_inside_are_refused(tmp_path, elements, words):
    refused(level5(tmp_path / "a.mat", *elements), words)


def test_other_versions_are_refused(tmp_path):
    refused(level5(tmp_path / "a.mat", DOUBLE, version=0x0300), "unknown version")


def level4(name, values, kind=0, rows=None):
    values = np.asarray(values, dtype="<f8")
    n, d = values.shape
    head = struct.pack("<5i", kind, n if rows is None else rows, d, 0, len(name) + 1)
    return head + name.encode() + b"\0" + values.tobytes(order="F")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (level4("a", [[1.0]]) * 2, "it holds 'a' twice"),
        (level4("a", [[1.0]], rows=5), "it ends early"),
        (level4("t", [[65.5]], kind=1), "text of characters that do not exist"),
        (level4("s", [[1.0, 1.0]], kind=2), "sparse matrix"),
        (level4("s", [[1.0, 1.0, 1.0], [2.5, 1.0, 0.0]], kind=2), "sparse matrix"),
    ],
)
def test_contradictions_of_level_4_are_refused(tmp_path, data, words):
    (tmp_path / "a.mat").write_bytes(data)
    refused(tmp_path / "a.mat", words)
