r"""The default on texts that no constant was made for: what does a docstring describe?

    pip install astropy==8.0.2 dask==2026.8.0 networkx==3.6.1 nltk==3.10.4 numpy==2.4.6 \
        pandas==3.1.1 scikit-image==0.26.0 scikit-learn==1.9.1 scipy==1.17.1 sphinx==9.0.4 \
        sqlalchemy==2.1.9 statsmodels==0.15.0 sympy==1.14.0 twisted==26.10.0 xarray==2026.9.0
    python scripts/unseen_texts.py [--tasks 120] [--jobs 2] [--plain] [--out F] [--table]

The docstrings of one library are a source, those of another the target: is a class described or
something that is called ("two classes"), or a class, a function or a method ("three classes")?
Words differ, and so do the shares of the classes. Beside the default stand what people would use
instead, as in unseen_tables.py. Docstrings are read from the installed libraries, once, into
build/unseen-texts.json; none are part of this repository. Tasks are stored as they are finished; a
second run goes on. The target's name says which half a task is of: constants may be settled on the
development half, the report half tells what they are worth.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import itertools
import json
import os
import pkgutil
import warnings
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from _stored import Row, Stored
from unseen_tables import FIELDS, measured, table

LIBRARIES = (
    *("astropy", "dask", "networkx", "nltk", "numpy", "pandas", "scipy", "skimage", "sklearn"),
    *("sphinx", "sqlalchemy", "statsmodels", "sympy", "twisted", "xarray"),
)
TEXTS = Path("build/unseen-texts.json")
#: Per library; of each kind at most half.
MAX_TEXTS, LEAST, LENGTH = 700, 60, 1200
LEFT_OUT = ("test", "conftest", "_f2py", "setup", "__main__", "externals", "_vendor", "vendored")
Texts = dict[str, list[tuple[str, str]]]


def things(library: str) -> Iterator[tuple[str, Any]]:
    """What the modules of a library define, and whether it is a class, a function or a method."""
    names = [library]
    for found in pkgutil.walk_packages(importlib.import_module(library).__path__, f"{library}."):
        if not any(part in found.name for part in LEFT_OUT):
            names.append(found.name)
    for name in names[:500]:
        try:
            module = importlib.import_module(name)
        except (Exception, SystemExit):  # it may want what is not installed, or to leave
            continue
        for own, thing in sorted(vars(module).items()):
            where = getattr(thing, "__module__", None)
            if own.startswith("_") or not isinstance(where, str) or not where.startswith(library):
                continue
            if not inspect.isclass(thing):
                yield "function", thing
                continue
            yield "class", thing
            for part, method in sorted(vars(thing).items()):
                if not part.startswith("_") and inspect.isfunction(method):
                    yield "method", method


def docstrings(library: str) -> list[tuple[str, str]]:
    """Kinds and docstrings, each beginning once."""
    found: dict[str, tuple[str, str]] = {}
    for kind, thing in things(library):
        text = inspect.getdoc(thing) if callable(thing) else None
        if text and len(text) > LEAST:
            found.setdefault(text[:400], (kind, text[:LENGTH]))
    texts = [found[key] for key in sorted(found)]
    rng = np.random.default_rng(zlib.crc32(library.encode()))
    shuffled = [texts[i] for i in rng.permutation(len(texts))]
    kept = [[one for one in shuffled if one[0] == kind][: MAX_TEXTS // 2]
            for kind in ("class", "function", "method")]  # fmt: skip
    return [one for i in itertools.zip_longest(*kept) for one in i if one is not None][:MAX_TEXTS]


def read_texts() -> Texts:
    """Of all libraries, from the file of an earlier run where there is one."""
    if not TEXTS.exists():
        lacking = [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
        if lacking:
            raise SystemExit(f"Not installed: {', '.join(lacking)}. See the top of {__file__}.")
        TEXTS.parent.mkdir(exist_ok=True)
        TEXTS.write_text(json.dumps({name: docstrings(name) for name in LIBRARIES}))
    found: Texts = json.loads(TEXTS.read_text())
    return found


def labelled(texts: list[tuple[str, str]], n_classes: int) -> tuple[list[str], NDArray[Any]]:
    """The texts, and what they describe."""
    kinds = [kind if n_classes == 3 or kind == "class" else "called" for kind, _ in texts]
    return [text for _, text in texts], np.array(kinds)


def task(source: str, target: str, n_classes: int, balanced: bool) -> Row:
    """One line of the result."""
    texts = read_texts()
    mine, ys = labelled(texts[source], n_classes)
    theirs, yt = labelled(texts[target], n_classes)
    words = TfidfVectorizer(sublinear_tf=True, min_df=2, max_features=10_000).fit(mine + theirs)
    models = {
        "ridge": RidgeClassifier(),
        "logistic": LogisticRegression(C=10, max_iter=500),
        "forest": RandomForestClassifier(200, random_state=0),
    }
    with warnings.catch_warnings(action="ignore"):
        rows = words.transform(mine), ys, words.transform(theirs), yt
        found = measured(*rows, models, class_weight="balanced" if balanced else None)
    half = "development" if zlib.crc32(target.encode()) % 2 == 0 else "report"
    kind = f"{'two' if n_classes == 2 else 'three'} classes, {half}"
    return {"data": f"{source} > {target}", "kind": kind, **found}


def main() -> None:
    """Measure, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=120, help="of 210, in an order of their own")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("docs/unseen-texts.csv"))
    parser.add_argument("--plain", action="store_true", help="class_weight=None of the default")
    parser.add_argument("--table", action="store_true", help="print what is stored")
    options = parser.parse_args()
    stored = Stored(options.out, FIELDS)
    if not options.table:
        read_texts()
        done = {data for (data,) in stored.values("data")}
        pairs = sorted(
            itertools.permutations(LIBRARIES, 2),
            key=lambda pair: zlib.crc32("→".join(pair).encode()),
        )
        weight = not options.plain
        asked = [(*pair, 2 + k % 2, weight) for k, pair in enumerate(pairs[: options.tasks])]
        left = [one for one in asked if f"{one[0]} > {one[1]}" not in done]
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of the processes to come
        with ProcessPoolExecutor(options.jobs) as pool:
            for row in pool.map(task, *zip(*left, strict=True)) if left else ():
                stored.add(row)
                print(row["data"], "done", flush=True)
    print(table(sorted(stored.rows, key=lambda row: row["kind"])))


if __name__ == "__main__":
    main()
