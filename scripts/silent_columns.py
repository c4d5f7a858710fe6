"""What columns cost that have one value in all target rows, by `MDAClassifierCV`.

    python scripts/silent_columns.py

Tables of scikit-learn are cut in two at random; in the second half, one column, three, or a third
of them become zero, or their median. Beside it, the same without these columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from marda import MDAClassifierCV, pack

MOST, DRAWS = 600, 3
Array = NDArray[np.float64]


def changed(X: Array, rng: np.random.Generator) -> Iterator[tuple[str, Array, NDArray[np.int64]]]:
    """What happened, the rows, and the columns that are as they were."""
    d = X.shape[1]
    for n in (1, 3, d // 3):
        columns = rng.choice(d, n, replace=False)
        for what, value in (("zero", np.zeros(n)), ("median", np.median(X[:, columns], 0))):
            Z = X.copy()
            Z[:, columns] = value
            yield what, Z, np.setdiff1d(np.arange(d), columns)


def accuracy(Xs: Array, ys: Array, Xt: Array, yt: Array) -> float:
    """Of the default."""
    X, y, domain = pack(Xs, ys, Xt)
    return float(MDAClassifierCV(random_state=0).fit(X, y, sample_domain=domain).score(Xt, yt))


def main() -> None:
    """Print a line per case, and the means."""
    warnings.simplefilter("ignore", UserWarning)
    found: dict[str, list[tuple[float, float]]] = {}
    print("table, draw, columns, in the target, accuracy, without these columns")
    for name, load in (("cancer", load_breast_cancer), ("wine", load_wine), ("iris", load_iris)):
        X, y = load(return_X_y=True)
        for draw in range(DRAWS):
            rng = np.random.default_rng(draw)
            order = rng.permutation(len(y))[:MOST]
            ours, theirs = np.array_split(order, 2)
            for what, Z, kept in changed(X, rng):
                with_them = accuracy(X[ours], y[ours], Z[theirs], y[theirs])
                without = accuracy(X[ours][:, kept], y[ours], X[theirs][:, kept], y[theirs])
                found.setdefault(what, []).append((with_them, without))
                print(name, draw, X.shape[1] - len(kept), what, f"{with_them:.3f} {without:.3f}")
    for what, pairs in found.items():
        with_them, without = 100 * np.mean(pairs, axis=0)
        print(f"{what}: {with_them:.1f} % right, {without:.1f} % without ({len(pairs)} cases)")


if __name__ == "__main__":
    main()
