"""Amazon reviews (AMT): positive or negative, four product domains, official split."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from marda.datasets.base import Dataset, Domain, FormatError, LazyDomains, Rows
from marda.datasets.storage import Layout, Location, array_of, find, finite, open_npz

NAME = "amt"
_Files: TypeAlias = tuple[tuple[str, str, int], ...]  # part, file, time: the key of a cache
DOMAINS = ("books", "dvd", "electronics", "kitchen")
SIDES = ("train", "test")
PARTS = tuple(f"{domain}_{side}" for domain in DOMAINS for side in SIDES)
N_FEATURES = 5000
LICENCE = (
    "No licence is stated by the publishers; the reviews are used in research. "
    "marda does not redistribute them."
)
CITATION = (
    "Blitzer, Dredze, Pereira: Biographies, Bollywood, boom-boxes and blenders, ACL 2007; split "
    "and features: Ganin et al.: Domain-adversarial training of neural networks, JMLR 2016; "
    "Chen, Xu, Weinberger, Sha: Marginalized denoising autoencoders, ICML 2012."
)
NOTES = "Counts of 5,000 words and bigrams; 2,000 official training rows per domain."
_SUMS = {
    "books_train": "317f9a2ec34b81de770b63a84d8c5cc2dc16bd0be6e079d2ff5b5bad5213ea19",
    "books_test": "fe4605c7dcf0e0a9410fd2a32f247caaf9abb352cc6e4c3e0f400853163ad9c4",
    "dvd_train": "95f602aa08bf6b55758f7b0b18df3882fe30acb11987ee60b6b4bb3c44cba733",
    "dvd_test": "4fe1b1a15010f78d8d0c49fe362d35fd4677463a45f1ac02a9f410ae1e638060",
    "electronics_train": "7d0061f03ff3827e4f8036b051b5e5828fddc0cd115aa5b212cd28d624dc14e4",
    "electronics_test": "641783bc941839c3a111d3488a1b7e3bd820a61ec14a129e7429b47703aa961d",
    "kitchen_train": "a70b5ebfe1413e0e16280360905f5c3b64389c435cd20c0165dc9d7f293b31b5",
    "kitchen_test": "e1502b97a824eb12314be4447394fa736fecb781c0724e6529cd6733ac7ff6d8",
}
KNOWN = {
    "amt.npz": "29f496c3353c0fba53c413910114e544f6c30266112e6fb14ce91498164275f6",
    **{f"{part}.svmlight": total for part, total in _SUMS.items()},
}
# The svmlight files as their authors keep them, at fixed commits, so that an address cannot change
# its content. The sums above were not taken from a download: they are those of amt.npz written
# out as svmlight, which has the length in bytes of the published files in all eight cases.
_REPOSITORY = "https://raw.githubusercontent.com/GRAAL-Research/domain_adversarial_neural_network"
_LATER = "9c89dea39409345c5d158373aea31b1518bc8632"
_EARLIER = "35d15ded645989bab9f6ea431a8fcd07c0909f01"
_COMMITS = {"dvd_train": _EARLIER, "electronics_test": _EARLIER, "kitchen_train": _EARLIER}
REMOTE = {
    f"{part}.svmlight": f"{_REPOSITORY}/{_COMMITS.get(part, _LATER)}/data/{part}.svmlight"
    for part in PARTS
}


LAYOUTS = (
    Layout("npz", {"all": ("amt.npz",)}),
    Layout("svmlight", {part: (f"{part}.svmlight",) for part in PARTS}),
)


def locate(path: str | os.PathLike[str] | None) -> Location:
    """Look for the npz file, else for the svmlight files."""
    return find(NAME, NAME, LAYOUTS, path)


def load(path: str | os.PathLike[str] | None) -> Dataset:
    """Load the npz file, else the svmlight files."""
    location = locate(path)
    if location.layout is None:
        raise location.missing()
    files = location.files
    if "all" in files:
        loaders = {name: partial(_npz_domain, files["all"], name) for name in DOMAINS}
    else:
        held = [name for name in DOMAINS if all(f"{name}_{side}" in files for side in SIDES)]
        if not held:
            raise location.missing("train and test rows of every domain of amt")
        # All files are read together: only together do they tell how many columns there are.
        key = tuple((part, str(file), file.stat().st_mtime_ns) for part, file in files.items())
        loaders = {name: partial(_svmlight_domain, key, name) for name in held}
    return Dataset(
        name=NAME,
        domains=LazyDomains(loaders),
        names=("negative", "positive"),
        licence=LICENCE,
        citation=CITATION,
        notes=NOTES,
        kind="text",
        files=tuple(files.values()),
        known=KNOWN,
    )


def _npz_domain(file: Path, domain: str) -> Domain:
    """Read the CSR pieces of both sides."""
    sides = []
    with open_npz(file) as archive:
        for side in SIDES:
            data, indices, indptr, y = (
                array_of(archive, f"{domain}_{side}_{piece}", file)
                for piece in ("counts", "indices", "indptr", "y")
            )
            width = max(N_FEATURES, int(indices.max(initial=0)) + 1)
            try:
                X = sparse.csr_matrix(
                    (data.astype(np.float64), indices.astype(np.int32), indptr.astype(np.int32)),
                    shape=(len(indptr) - 1, width),
                )
            except ValueError as error:
                raise FormatError(f"{file}: {domain}_{side} is no CSR matrix ({error}).") from error
            sides.append((X, y.astype(np.int64)))
    return _stack(sides, file)


def _svmlight_domain(files: _Files, domain: str) -> Domain:
    """Return one domain of the svmlight files."""
    content = _read_svmlight(files)
    return _stack([content[f"{domain}_{side}"] for side in SIDES], Path(files[0][1]).parent)


@lru_cache(maxsize=1)
def _read_svmlight(files: _Files) -> Mapping[str, tuple[Rows, NDArray[np.int64]]]:
    """Read all files with one column numbering; labels of any two values become 0 and 1."""
    from sklearn.datasets import load_svmlight_files

    try:
        arrays = load_svmlight_files([file for _, file, _ in files], zero_based=True)
    except (ValueError, OSError) as error:
        raise FormatError(f"The svmlight files of amt cannot be read ({error}).") from error
    labels = np.unique(np.concatenate(arrays[1::2]))
    if len(labels) > 2:
        raise FormatError(
            f"The svmlight files of amt hold labels {labels[:5]}: expected two values."
        )
    # The published files count columns from 0. Counting from 1 shows by the number 5000, and is
    # harmless where it does not show: all files move together.
    used = [X.indices.min(initial=N_FEATURES) for X in arrays[::2]]
    first = 1 if arrays[0].shape[1] == N_FEATURES + 1 and min(used) > 0 else 0
    width = max(N_FEATURES, arrays[0].shape[1] - first)
    content = {}
    for (part, _, _), X, y in zip(files, arrays[::2], arrays[1::2], strict=True):
        # Columns that no review uses are missing from svmlight files: the width is restored.
        wide = sparse.csr_matrix((X.data, X.indices - first, X.indptr), shape=(X.shape[0], width))
        content[part] = (wide, (y == labels[-1]).astype(np.int64))
    return content


def _stack(sides: list[tuple[Rows, NDArray[np.int64]]], file: Path) -> Domain:
    """Put train rows above test rows and mark them."""
    (X_train, y_train), (X_test, y_test) = sides
    if y_train.shape[0] != X_train.shape[0] or y_test.shape[0] != X_test.shape[0]:
        raise FormatError(f"{file}: rows and labels differ in number.")
    y = np.concatenate([y_train, y_test])
    if not np.isin(y, (0, 1)).all():
        raise FormatError(f"{file}: labels {np.unique(y)[:5]}: expected 0 and 1.")
    train = np.arange(len(y)) < len(y_train)
    X = sparse.vstack([X_train, X_test], format="csr")
    return Domain(finite(X, file), y, train=train)
