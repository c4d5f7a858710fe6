"""The real files in the folder that MARDA_DATA names, and the figures published for them."""

import hashlib
import os

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier

from marda import datasets
from marda.datasets import amt, load, make_task, sampled_task

# Skipped only where no folder is named: a named folder without the files is a failure.
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not os.environ.get("MARDA_DATA"), reason="MARDA_DATA is not set"),
]

SHAPES = {
    "amt": {"books": 6465, "dvd": 5586, "electronics": 7681, "kitchen": 7945},
    "oc10-squeezenet": {"amazon": 958, "caltech10": 1123, "dslr": 157, "webcam": 295},
    "oc10-surf": {"amazon": 958, "caltech10": 1123, "dslr": 157, "webcam": 295},
    "oc10-decaf6": {"dslr": 157, "webcam": 295},
    "off31-squeezenet": {"amazon": 2817, "dslr": 498, "webcam": 795},
}
COLUMNS = {
    "amt": 5000,
    "oc10-squeezenet": 4608,
    "oc10-surf": 800,
    "oc10-decaf6": 4096,
    "off31-squeezenet": 4608,
}


@pytest.mark.parametrize("name", SHAPES)
def test_content(name):
    data = load(name, verify=True)
    assert all(check.ok for check in datasets.check(name))
    assert {domain: len(rows) for domain, rows in data.domains.items()} == SHAPES[name]
    for rows in data.domains.values():
        assert rows.X.shape[1] == COLUMNS[name]
        assert len(np.unique(rows.y)) == len(data.names)


def test_official_split():
    data = load("amt")
    for name, size in SHAPES["amt"].items():
        X, y = data[name].part("train")
        assert X.shape == (2000, 5000)
        assert y.mean() == 0.5
        assert data[name].part("test")[0].shape[0] == size - 2000


def test_class_names_fit_the_counts():
    """The published number of amazon images of every class."""
    counts = np.bincount(load("oc10-surf")["amazon"].y)
    np.testing.assert_array_equal(counts, [92, 82, 94, 99, 100, 100, 99, 100, 94, 98])
    off31 = np.bincount(load("off31")["amazon"].y)
    names = load("off31").names
    np.testing.assert_array_equal(counts, [off31[names.index(n)] for n in load("oc10").names])


def mean_accuracy(data, rule, **options):
    scores = []
    for source, target in data.pairs():
        task = make_task(data, source, target, **options)
        scores.append(rule.fit(task.X_source, task.y_source).score(task.X_test, task.y_test))
    return 100 * np.mean(scores)


@pytest.mark.parametrize(
    ("name", "figure"), [("amt", 77.4), ("oc10-squeezenet", 84.3), ("oc10-surf", 46.9)]
)
def test_ridge_baseline(name, figure):
    rule = RidgeClassifier(alpha=1.0, fit_intercept=False)
    assert mean_accuracy(load(name), rule) == pytest.approx(figure, abs=0.3)


def test_published_nearest_neighbour_figure_of_surf():
    rule = KNeighborsClassifier(n_neighbors=1)
    got = mean_accuracy(load("oc10-surf"), rule, surf_l2=False)
    assert got == pytest.approx(31.4, abs=0.3)


def test_sampling_protocol_fits_the_smallest_class():
    data = load("oc10-surf")
    for source, target in data.pairs():
        task = sampled_task(data, source, target)
        assert len(task.y_source) == (80 if source == "dslr" else 200)
        assert task.labelled.sum() == 30
        assert len(task.y_test) == len(data[target]) - 30


def test_addresses_promise_what_the_npz_file_holds():
    """The checksums of the public svmlight files are those of amt.npz written out."""
    data = load("amt")
    for domain, rows in data.domains.items():
        for side in amt.SIDES:
            X, y = rows.part(side)
            text = hashlib.sha256()
            for i, label in enumerate(y):
                at = slice(X.indptr[i], X.indptr[i + 1])
                pairs = zip(X.indices[at].tolist(), X.data[at].astype(int).tolist(), strict=True)
                words = " ".join(f"{j}:{n}" for j, n in pairs)
                text.update(f"{1 if label else -1} {words}\n".encode())
            assert text.hexdigest() == amt.KNOWN[f"{domain}_{side}.svmlight"]
