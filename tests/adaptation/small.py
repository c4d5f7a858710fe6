"""A small problem of three classes, and its rows in files of every format."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import scipy.io
from sklearn.datasets import dump_svmlight_file

from marda import MDAClassifier, pack

D = 4
RNG = np.random.default_rng(5)
YS, YT = np.arange(60) % 3, np.arange(45) % 3
CENTRES = RNG.normal(0, 2, (3, D))
XS = CENTRES[YS] + RNG.normal(0, 1, (60, D))
XT = CENTRES[YT] + RNG.normal(0.7, 1, (45, D))
NAMES = [f"f{k}" for k in range(D)]


def write(path, X, y=None, ids=None):
    """Write rows; y may hold None."""
    kind = path.suffix[1:]
    if kind == "csv":
        with path.open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(
                [*(["id"] if ids is not None else []), *NAMES, *(["y"] if y is not None else [])]
            )
            for k, row in enumerate(X.tolist()):
                label = [] if y is None else ["" if y[k] is None else y[k]]
                out.writerow([*([ids[k]] if ids is not None else []), *row, *label])
    elif kind == "parquet":
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        columns = {name: X[:, k] for k, name in enumerate(NAMES)}
        pq.write_table(pa.table(columns if y is None else {**columns, "y": list(y)}), path)
    elif kind == "svm":
        dump_svmlight_file(X, np.full(len(X), -9) if y is None else y, str(path))
    elif kind == "npz":
        np.savez(path, X=X, **({} if y is None else {"y": y}))
    else:
        scipy.io.savemat(path, {"X": X, **({} if y is None else {"y": y})})
    return path


def from_python(method="S1D", yt=None, **options):
    X, y, domain = pack(XS, YS, XT, yt)
    return MDAClassifier(method, **options).fit(X, y, sample_domain=domain)
