"""Containers: arrays and JSON come back; other kinds and other formats say what they are."""

from __future__ import annotations

import numpy as np
import pytest

from marda.io.container import (
    DTYPES,
    Foreign,
    Kind,
    Lazy,
    Newer,
    Overlong,
    TooLarge,
    Truncated,
    WrongChecksum,
    open_container,
    write_container,
)

KIND = Kind("test", 2, readable=("1", "2"))
LIMIT = 10**6


def read(path, kind=KIND, limit=LIMIT):
    with open_container(path, kind, limit=limit) as file:
        return file.content, {name: file[name] for name in file.shapes}


def test_arrays_of_every_type_and_shape_come_back(tmp_path):
    arrays = {code: np.arange(6).reshape(2, 3).astype(DTYPES[code]) for code in DTYPES}
    arrays |= {"number": np.array(1.5), "empty": np.empty((0, 3)), "turned": np.eye(2, 3).T}
    arrays["big-endian"] = np.arange(3, dtype=">i4")
    write_container(tmp_path / "a", KIND, {"ü": [1, None]}, arrays)
    content, held = read(tmp_path / "a")
    assert content == {"ü": [1, None]}
    assert list(held) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(held[name], array)
        assert held[name].shape == array.shape
        assert held[name].dtype == array.dtype.newbyteorder("<")


def test_arrays_in_pieces_give_the_same_bytes(tmp_path):
    X = np.arange(12.0).reshape(4, 3)
    write_container(tmp_path / "a", KIND, {}, {"X": X})
    write_container(tmp_path / "b", KIND, {}, {"X": Lazy(X.dtype, X.shape, lambda: iter(X))})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_an_array_is_read_from_its_place(tmp_path):
    write_container(tmp_path / "a", KIND, {}, {"x": np.arange(3), "y": np.arange(4.0)})
    with open_container(tmp_path / "a", KIND, limit=LIMIT) as file:
        assert file.shapes == {"x": (3,), "y": (4,)}
        assert file.dtype("y") == np.float64
        assert np.frombuffer(file.seek("y").read(16)).tolist() == [0.0, 1.0]


def test_what_is_not_held(tmp_path):
    with pytest.raises(TypeError, match="x of dtype complex128"):
        write_container(tmp_path / "a", KIND, {}, {"x": np.zeros(2, dtype=complex)})
    with pytest.raises(FileNotFoundError):
        write_container(tmp_path / "no" / "a", KIND, {}, {}, make_folder=False)
    assert not list(tmp_path.iterdir())


def test_why_a_file_cannot_be_used(tmp_path):
    path = tmp_path / "a"
    write_container(path, KIND, {}, {"x": np.arange(9)})
    whole = path.read_bytes()
    with pytest.raises(Foreign):
        read(path, Kind("other", 2, ("2",)))
    with pytest.raises(Newer) as newer:
        read(path, Kind("test", 1, ("1",)))
    assert newer.value.version == "2"
    with pytest.raises(TooLarge) as large:
        read(path, limit=len(whole) - 1)
    assert large.value.size == len(whole)
    for data, error in ((whole[:-1], Truncated), (whole + b"x", Overlong)):
        path.write_bytes(data)
        with pytest.raises(error) as caught:
            read(path)
        assert (caught.value.size, caught.value.written) == (len(data), len(whole))
    path.write_bytes(whole[:-1] + b"\1")
    with pytest.raises(WrongChecksum):
        read(path)
