"""How long the default takes to fit, beside the default of another revision.

    MARDA_DATA=... python scripts/fit_times.py REVISION [--benchmarks NAME …] [--tasks N]

The same rows are fitted in turn by the sources of both, each in a process of its own that has
fitted a small table before. Printed are the processor seconds of the tasks of a benchmark, with one
thread of BLAS: those of a clock where nothing else runs, and hardly others where something does. Of
each task the quickest of a few fits counts; the task that has fared worst is told by how many times
as long as before it takes.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from marda import pack
from marda.benchmarks.execute import load_task, present_domains
from marda.benchmarks.plan import AUTO, EVALUATIONS, Request, TaskSpec
from marda.datasets import DataError

ROOT = Path(__file__).parents[1]
#: Run with the sources of either revision, so it asks for nothing that only one of them has.
FIT = """
import json, sys, time, warnings
import numpy as np, scipy.sparse as sp
import marda
folder = sys.argv[1]
assert marda.__file__.startswith(folder), f"{marda.__file__} is not of {folder}"
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
small = rng.normal(size=(60, 4)), np.r_[np.arange(30) % 2, np.full(30, -1)]
marda.MDAClassifierCV().fit(*small, sample_domain=np.r_[np.ones(30, int), -np.ones(30, int)])
for line in sys.stdin:
    held = np.load(line.strip())
    X = held["X"] if "X" in held else sp.csr_array(
        (held["data"], held["indices"], held["indptr"]), shape=tuple(held["shape"]))
    began = time.process_time()
    marda.MDAClassifierCV().fit(X, held["y"], sample_domain=held["domain"])
    print(json.dumps(time.process_time() - began), flush=True)
"""


def tasks_of(benchmark: str, most: int) -> list[TaskSpec]:
    """Tasks of a benchmark without labels of the target, spread over all there are."""
    asked = Request(datasets=[benchmark], models=[AUTO], settings="auto", draws=1, table="us")
    specs = asked.specs(present_domains([benchmark], None))
    found = list(dict.fromkeys(spec.task for spec in specs))
    return [found[k * len(found) // most] for k in range(most)] if len(found) > most else found


def write_rows(spec: TaskSpec, file: Path) -> None:
    """The rows of a task, source first, as arrays of numbers."""
    task = load_task(spec, None)
    X, _, domain = pack(task.X_source, task.y_source, task.X_target)
    codes = np.unique(task.y_source, return_inverse=True)[1]
    y = np.pad(codes, (0, len(domain) - len(codes)), constant_values=-1)
    if sp.issparse(X):
        X = X.tocsr()
        rows = {name: getattr(X, name) for name in ("data", "indices", "indptr", "shape")}
    else:
        rows = {"X": X}
    np.savez(file, y=y, domain=domain, **rows)


class Fits:
    """A process that fits by the sources of a folder."""

    def __init__(self, source: Path):
        one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self.source = source
        self.process = subprocess.Popen(
            [sys.executable, "-c", FIT, str(source)],
            env={**os.environ, **one, "PYTHONPATH": str(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def seconds(self, file: Path) -> float:
        """Of a fit of these rows."""
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.write(f"{file}\n")
            process.stdin.flush()
        said = process.stdout.readline()
        if not said:
            why = process.communicate()[1].strip().splitlines()
            sys.exit(f"fit_times.py: {self.source}: {why[-1] if why else process.returncode}")
        return float(json.loads(said))

    def end(self) -> None:
        """No more fits."""
        self.process.kill()
        self.process.communicate()


def extract(revision: str, folder: Path) -> Path:
    """The sources of a revision."""
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", revision, "src"], capture_output=True, check=False
    )
    if archive.returncode:
        raise DataError(f"git knows no revision {revision}.")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return folder / "src"


def compare(revision: str, benchmarks: Iterable[str], most: int, rounds: int) -> None:
    """Print a line per benchmark as it is finished."""
    form = "{:20} {:>5} {:>9} {:>9} {:>7} {:>7}  {}"
    with tempfile.TemporaryDirectory() as folder, ExitStack() as ending:
        both = [Fits(source) for source in (extract(revision, Path(folder)), ROOT / "src")]
        ending.callback(lambda: [one.end() for one in both])
        print(form.format("benchmark", "tasks", "before", "now", "ratio", "worst", ""), flush=True)
        file = Path(folder, "rows.npz")
        for name in benchmarks:
            pairs, names = [], []
            for spec in tasks_of(name, most):
                write_rows(spec, file)
                tried = [[one.seconds(file) for one in both] for _ in range(rounds)]
                pairs.append(np.min(tried, axis=0))
                names.append(spec.pair)
            old, new = np.sum(pairs, axis=0)
            ratios = [now / then for then, now in pairs]
            worst = int(np.argmax(ratios))
            line = (len(pairs), f"{old:.2f} s", f"{new:.2f} s", f"{new / old:.2f}")
            print(form.format(name, *line, f"{ratios[worst]:.2f}", names[worst]), flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("revision", help="of git, such as v0.1.0 or e136eb2")
    parser.add_argument("--benchmarks", nargs="+", choices=EVALUATIONS, default=[*EVALUATIONS])
    parser.add_argument("--tasks", type=int, default=6, help="of each, at most")
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args(argv)
    if min(args.tasks, args.rounds) < 1:
        parser.error("--tasks and --rounds must be at least 1.")
    try:
        compare(args.revision, args.benchmarks, args.tasks, args.rounds)
    except DataError as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
