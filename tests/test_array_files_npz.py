"""npz archives: as numpy reads them where they are whole, one sentence where they are not."""

from __future__ import annotations

import io
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from marda._array_files import NpzError, open_npz
from measured import traced_peak

TYPES = ["<f8", ">f4", "<f2", "|i1", "<u2", ">i4", "<i8", "|b1", "<c16", "<U3", "|S2", "<M8[s]"]
METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]


def read(path, **options):
    with open_npz(path, **options) as archive:
        return {name: archive[name] for name in archive.files}


def write(path, members, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)


def npy(array):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), allow_pickle=True)
    return out.getvalue()


def claim(descr, shape, data=b"", order="False"):
    """An array whose header says what it likes."""
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


@settings(max_examples=60, deadline=None)
@given(
    array=st.sampled_from(TYPES).flatmap(
        lambda t: hnp.arrays(t, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    ),
    columns_first=st.booleans(),
    method=st.sampled_from(METHODS),
)
def test_arrays_of_every_type_are_as_numpy_reads_them(
    tmp_path_factory, array, columns_first, method
):
    path = tmp_path_factory.mktemp("npz") / "a.npz"
    array = np.asfortranarray(array) if columns_first and array.ndim else array
    write(path, [("a.npy", npy(array))], method)
    with np.load(path) as theirs:
        ours = read(path)["a"]
        assert ours.dtype == theirs["a"].dtype
        np.testing.assert_array_equal(ours, theirs["a"])


def test_names_keep_their_order_and_only_what_is_asked_for_is_read(tmp_path):
    np.savez(tmp_path / "a.npz", z=[1], a=[2])
    with open_npz(tmp_path / "a.npz") as archive:
        assert archive.files == ["z", "a"]
        with pytest.raises(KeyError):
            archive["b"]


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (npy(np.array([[1, None]], dtype=object)), "Python objects, and allow_pickle is never"),
        (claim("'|O'", "(3,)", b"\x80\x04."), "Python objects"),
        (npy(np.zeros(2, dtype=[("a", "f8"), ("b", "i4")])), "holds records"),
        (npy(np.zeros(2, dtype="V4")), "of type '|V4', neither numbers nor text"),
        (claim("'<f8'", "(1000000000, 10)", bytes(40_000)), "declares 80 GB, and 40 kB are there"),
        (claim("'<f8'", "(0, 4611686018427387904)"), "impossible shape"),
        (claim("'<f8'", "(-1,)"), "no header"),
        (claim("__import__('os')", "(1,)", bytes(8)), "no header"),
        (claim("'<f8'", "(1,)", bytes(8), "1 if True else 0"), "no header"),
        (claim("'<f8'", "(" + "1," * 40 + ")", bytes(8)), "impossible shape"),
        (claim("'f8,f8'", "(1,)", bytes(16)), "neither numbers nor text"),
        (npy(np.zeros(4)) + b"x", "declares 0.032 kB, and 0.033 kB are there"),
        (b"not an array", "not an array"),
        (b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31), "a header of 2147483648 bytes"),
        (b"", "not an array"),
    ],
)
def test_members_that_are_refused(tmp_path, member, words):
    write(tmp_path / "a.npz", [("X.npy", member)])
    with pytest.raises(NpzError, match=words) as caught:
        read(tmp_path / "a.npz")
    assert "\n" not in str(caught.value)


def test_other_members_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    write(path, [("sheet.xml", b"<a/>")])
    with pytest.raises(NpzError, match=r"'sheet\.xml', which is not an array"):
        read(path)
    with pytest.warns(UserWarning, match="Duplicate name"):
        write(path, [("a.npy", npy([1])), ("a.npy", npy([2]))])
    with pytest.raises(NpzError, match="holds 'a' twice"):
        read(path)


def test_nothing_is_allocated_that_the_file_cannot_hold(tmp_path):
    """Before 0.2.0 a file of 41 kB that claims 10 GB took them before it was refused."""
    path = tmp_path / "a.npz"
    for content in (claim("'<f8'", "(1250000000,)", bytes(41_000)), npy(np.zeros(10**6))):
        write(path, [("X.npy", content)], zipfile.ZIP_DEFLATED)

        def refused():
            with pytest.raises(NpzError, match=r"declares 10 GB|more than 1 MB, the memory"):
                read(path, limit=10**6)

        assert traced_peak(refused) < 2 * 10**6


def test_a_directory_that_lies_about_sizes_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    write(path, [("X.npy", npy(np.zeros(100)))], zipfile.ZIP_DEFLATED)
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    struct.pack_into("<I", data, at + 24, 2**31)  # bytes when unpacked
    path.write_bytes(data)
    with pytest.raises(NpzError, match="more bytes than the file can hold"):
        read(path)


def test_a_directory_that_hides_arrays_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    write(path, [("X.npy", npy([1.0])), ("y.npy", npy([2.0]))])
    data = bytearray(path.read_bytes())
    first = data.index(b"PK\x01\x02")
    second = data.index(b"PK\x01\x02", first + 1)
    struct.pack_into("<H", data, first + 32, len(data) - second)  # length of a comment
    path.write_bytes(data)
    with pytest.raises(NpzError, match="1 arrays are found where 2 are declared"):
        read(path)


@pytest.mark.parametrize("method", METHODS)
def test_every_truncation_and_changed_byte_of_the_data_is_refused(tmp_path, method):
    path = tmp_path / "a.npz"
    write(path, [("X.npy", npy(np.arange(30.0)))], method)
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        with pytest.raises(NpzError):
            read(path)
    data = bytearray(whole)
    for at in range(60, whole.index(b"PK\x01\x02")):
        data[at] ^= 0x55
        path.write_bytes(data)
        data[at] ^= 0x55
        try:
            np.testing.assert_array_equal(read(path)["X"], np.arange(30.0))  # padding of LZMA
        except NpzError:
            continue


def test_a_missing_file_is_its_own_error(tmp_path):
    with pytest.raises(FileNotFoundError), open_npz(tmp_path / "nothing.npz"):
        pass
