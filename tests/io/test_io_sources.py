"""Matrices of several sources become one, with their columns in the order of the first."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from marda.io import InputError, read_table, stack_sources

A = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
B = np.array([[4.0, 5.0, 6.0]])


def npz(path, X, names=("a", "b", "c")):
    np.savez(path, X=X, feature_names=np.array(names))
    return read_table(path)


def svmlight(path, X):
    lines = [" ".join(["1", *(f"{j}:{v}" for j, v in enumerate(row) if v)]) for row in X]
    path.write_text("\n".join(lines) + "\n")
    return read_table(path)


def stacked(*tables):
    return stack_sources(tables, [None])


def test_one_source_is_left_alone(tmp_path):
    table = npz(tmp_path / "a.npz", A)
    assert stacked(table) is table


def test_columns_are_matched_by_their_names(tmp_path):
    one = npz(tmp_path / "a.npz", A)
    other = npz(tmp_path / "b.npz", B[:, [2, 0, 1]], ("c", "a", "b"))
    whole = stacked(one, other)
    np.testing.assert_array_equal(whole.block, np.vstack([A, B]))
    assert list(whole.block_names) == ["a", "b", "c"]
    assert whole.parts == ((one.path, 2), (other.path, 1))


def test_other_names_are_refused_by_name_of_the_file(tmp_path):
    tables = npz(tmp_path / "a.npz", A), npz(tmp_path / "b.npz", B, ("a", "b", "z"))
    with pytest.raises(InputError, match=r"b\.npz"):
        stacked(*tables)


def test_zeros_that_svmlight_leaves_out_at_the_end(tmp_path):
    short = svmlight(tmp_path / "a.svm", A[:, :2])
    whole = stacked(short, svmlight(tmp_path / "b.svm", B))
    assert sp.issparse(whole.block)
    np.testing.assert_array_equal(whole.block.toarray(), [[1, 0, 0], [0, 3, 0], [4, 5, 6]])


def test_dense_and_sparse_matrices_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", X=A[:, :2])
    sp.save_npz(tmp_path / "b.npz", sp.csr_array(B))
    with pytest.raises(InputError, match=r"different kinds or widths \(2, 3 columns\)"):
        stacked(read_table(tmp_path / "a.npz"), read_table(tmp_path / "b.npz"))


def test_columns_and_a_matrix_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,c\n1,2,3\n4,5,6\n")
    with pytest.raises(InputError, match=r"a\.csv holds columns, but another source a matrix"):
        stacked(read_table(tmp_path / "a.csv"), npz(tmp_path / "b.npz", B))
