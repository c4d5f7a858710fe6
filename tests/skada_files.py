"""A tiny file in the layout of skada-bench.npz."""

import numpy as np

from marda.datasets.skada_bench import SPLITS


def write(folder, tasks=("mushrooms e>t", "subspace 0"), splits=SPLITS, **changed):
    """Two classes apart in one column; the tasks have different numbers of columns."""
    arrays = {}
    rng = np.random.default_rng(0)
    for width, task in enumerate(tasks, 2):
        for split in range(splits):
            for part, n in (("s", 30), ("u", 20), ("t", 12)):
                y = np.arange(n) % 2
                X = rng.normal(size=(n, width)) + 4 * y[:, None]
                arrays[f"{task}|{split}|X{part}"] = X.astype(np.float32)
                arrays[f"{task}|{split}|y{part}"] = y
    arrays = {name: value for name, value in {**arrays, **changed}.items() if value is not None}
    np.savez(folder / "skada-bench.npz", **arrays)
    return folder
