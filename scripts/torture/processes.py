"""Commands on a bad day: signals, a full disk, a folder that cannot be written, little memory.

Whatever happens, a file under its own name is whole, what was finished is kept, the command says
in one line what went wrong, and the next call gives what an undisturbed one gives.

    python -m scripts.torture.processes [--moments 3]
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scripts.torture.outcome import Outcome
from scripts.torture.rows import Row, Tally

UNIT, LONG, SHORT = "moments per signal and command", 10, 1
LIMIT = 300  # seconds that a command may take
FREE = 96 * 1024  # bytes of the full disk


class Command(NamedTuple):
    """A command that writes into a folder, and what its results are."""

    name: str
    arguments: Callable[[Path], list[str]]
    results: Callable[[Path], dict[str, str]]  # name → digest; raises if one is not whole


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    error: str
    seconds: float

    @property
    def traceback(self) -> bool:
        """Whether the user sees one."""
        return "Traceback (most recent call last)" in self.error


def call(
    arguments: list[str],
    *,
    stop: tuple[int, float] | None = None,
    limits: dict[int, int] | None = None,
    **env: str,
) -> Ended:
    """Run marda; send a signal to it and its workers after some seconds, or limit it."""

    def limited() -> None:
        for kind, size in (limits or {}).items():
            resource.setrlimit(kind, (size, size))

    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "marda", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=limited if limits else None,  # noqa: PLW1509 - no threads here
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", **env},
    )
    try:
        _, error = process.communicate(timeout=stop[1] if stop else LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, stop[0] if stop else signal.SIGKILL)
        try:
            _, error = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return Ended(-1, f"did not end within {LIMIT} s of the signal", 0.0)
        if not stop:
            return Ended(-1, f"took more than {LIMIT} s", 0.0)
    return Ended(process.returncode, error, time.monotonic() - started)


# What is run -------------------------------------------------------------------------------------


def inputs(folder: Path) -> None:
    """Rows of two domains as CSV, and of one as Parquet."""
    rng = np.random.default_rng(0)
    for name, shift, n in (("s", 0.0, 400), ("t", 0.5, 4000)):
        y = rng.integers(0, 2, n)
        X = rng.normal(y[:, None] + shift, 1, (n, 12))
        with (folder / f"{name}.csv").open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["id", *(f"f{k}" for k in range(12)), *(["y"] if name == "s" else [])])
            for i, row in enumerate(X.tolist()):
                out.writerow([f"{name}{i}", *row, *([int(y[i])] if name == "s" else [])])
    import pyarrow as pa
    import pyarrow.parquet as pq

    X = rng.normal(size=(400_000, 40))
    columns = {f"f{k}": X[:, k] for k in range(40)} | {"y": rng.integers(0, 3, len(X))}
    pq.write_table(pa.table(columns), folder / "big.parquet", row_group_size=20_000)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _adapted(folder: Path) -> dict[str, str]:
    import marda

    found = {}
    if (folder / "p.csv").exists():
        found["p.csv"] = _digest((folder / "p.csv").read_bytes())
    if (folder / "m.marda").exists():
        model = marda.load(folder / "m.marda")
        found["m.marda"] = type(model).__name__
    if (folder / "r.html").exists():
        page = (folder / "r.html").read_text(encoding="utf-8")
        if not page.rstrip().endswith("</html>"):
            raise ValueError("r.html is cut off")
        found["r.html"] = "whole"
    return found


def _summed(folder: Path) -> dict[str, str]:
    from marda import Moments

    if not (folder / "big.moments").exists():
        return {}
    moments = Moments.load(folder / "big.moments")
    rounded = np.round(moments.means(), 9) + 0.0
    return {"big.moments": f"{moments.counts.sum():.0f} rows, {_digest(rounded.tobytes())}"}


def _stored(folder: Path) -> dict[str, str]:
    path = folder / "results.sqlite"
    if not path.exists():
        return {}
    with sqlite3.connect(path) as db:
        (state,) = db.execute("PRAGMA integrity_check").fetchone()
        if state != "ok":
            raise ValueError(f"results.sqlite: {state}")
        try:
            rows = db.execute("SELECT key, accuracy FROM rows WHERE status = 'done'").fetchall()
        except sqlite3.OperationalError:  # killed before the tables were made
            rows = []
    db.close()
    return {key: f"{accuracy:.6f}" for key, accuracy in rows}


def commands(data: Path) -> list[Command]:
    """The commands to disturb."""

    def adapt(folder: Path) -> list[str]:
        files = ["--source", f"{data}/s.csv", "--target", f"{data}/t.csv", "--method", "S1D"]
        out = ["--out", f"{folder}/p.csv", "--model", f"{folder}/m.marda"]
        out += ["--report", f"{folder}/r.html", "--force"]
        return ["adapt", *files, "--label", "y", "--id", "id", *out]

    def build(folder: Path) -> list[str]:
        files = [f"{data}/big.parquet", "--domain", "a", "--label", "y"]
        memory = ["--memory", "40MB", "--checkpoint", f"{folder}/big.checkpoint"]
        return ["moments", "build", *files, *memory, "--force", "-o", f"{folder}/big.moments"]

    def reproduce(folder: Path) -> list[str]:
        what = ["--datasets", "sentiment-snippets", "--models", "BL", "MCF", "--table", "us"]
        which = ["--classifiers", "ridge", "dscm", "--jobs", "2"]
        return ["reproduce", *what, *which, "--out", str(folder)]

    return [
        Command("marda adapt", adapt, _adapted),
        Command("marda moments build", build, _summed),
        Command("marda reproduce", reproduce, _stored),
    ]


# What is checked ---------------------------------------------------------------------------------


def check(
    command: Command, folder: Path, ended: Ended, wanted: dict[str, str], codes: tuple[int, ...]
) -> str:
    """What is wrong after a disturbance, or nothing."""
    if ended.code not in codes:
        return f"ended with {ended.code}: {ended.error.strip()[-160:]!r}"
    if ended.traceback:
        return f"a traceback: {ended.error.strip().splitlines()[-1][:160]!r}"
    # Native libraries tell of missing memory in their own words.
    lines = [line for line in ended.error.strip().splitlines() if not line.startswith("OpenBLAS")]
    if ended.code > 0 and ended.code != 130 and len(lines) > 2:
        return f"more than a line or two: {ended.error.strip()[-200:]!r}"
    try:
        found = command.results(folder)
    except Exception as error:
        return f"a half file is there: {type(error).__name__}: {str(error)[:160]}"
    for name, value in found.items():
        if wanted.get(name) != value:
            return f"{name} is not what an undisturbed run gives"
    if ended.code == 0 and found != wanted:
        return "said that it was done, but results are missing"
    return ""


def again(command: Command, folder: Path, kept: dict[str, str], wanted: dict[str, str]) -> str:
    """What is wrong with the next call, or nothing."""
    if command.name == "marda reproduce" and not kept.items() <= wanted.items():
        return "finished rows were lost"
    ended = call(command.arguments(folder))
    if ended.code:
        return f"the next call ends with {ended.code}: {ended.error.strip()[-160:]!r}"
    if command.results(folder) != wanted:
        return "the next call gives something else"
    left = [path.name for path in folder.iterdir() if path.name.endswith(".tmp")]
    return f"a temporary file is left after the next call: {left[0]}" if left else ""


@contextmanager
def small_disk(folder: Path) -> Iterator[tuple[Path, dict[int, int]]]:
    """A disk with little room: a mounted one, or else a limit on the size of files."""
    place = folder / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={FREE}", "tmpfs", str(place)]
    if (
        os.geteuid() == 0
        and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    ):
        try:
            yield place, {}
        finally:
            subprocess.run(["umount", "-l", str(place)], check=True)
    else:
        yield place, {resource.RLIMIT_FSIZE: FREE}


@contextmanager
def closed_folder(folder: Path) -> Iterator[Path | None]:
    """A folder that cannot be written; None where that cannot be made."""
    place = folder / "closed"
    place.mkdir()
    if os.geteuid() != 0:
        place.chmod(0o500)
        yield place
        place.chmod(0o700)
        return
    mount = ["mount", "-t", "tmpfs", "-o", "ro,size=64k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


THREADS = """
import sys, numpy as np
from marda import MDAClassifier, MDAClassifierCV, datasets, pack
shifted = datasets.make_shift(n_source=150, n_target=150, n_features=60, n_classes=3, seed=1)
(a, b) = (shifted.domains[name] for name in shifted.domains)
yt = np.where(np.arange(len(b.y)) % 10 == 0, b.y, -1)
X, y, domain = pack(a.X, a.y, b.X, yt)
wide = np.hstack([X, np.random.default_rng(0).normal(size=(len(X), 500))])
found = {}
methods = "BL MCF S1 S1M S1C S1D J12 J12M J12C J12D J12CD".split()
for method in methods:
    for rows, solver in ((X, "primal"), (wide, "dual"), (X, "cg")):
        model = MDAClassifier(method, solver=solver).fit(rows, y, sample_domain=domain)
        found[f"{method} {solver}"] = model.decision_function(rows)
for classifier in ("kernel", "nn", "dscm"):
    model = MDAClassifier("S1D", classifier=classifier).fit(X, y, sample_domain=domain)
    found[f"S1D {classifier}"] = model.predict_proba(X)
found["MDAClassifierCV"] = (
    MDAClassifierCV(random_state=0).fit(X, y, sample_domain=domain).predict_proba(X)
)
np.savez(sys.argv[1], **found)
"""


def threads(folder: Path, tally: Tally) -> None:
    """One or two BLAS threads: the same to 1e-10."""
    scores = []
    for n in ("1", "2"):
        path = folder / f"threads{n}.npz"
        env = {**os.environ, "OPENBLAS_NUM_THREADS": n, "OMP_NUM_THREADS": n, "MKL_NUM_THREADS": n}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", THREADS, str(path)],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            cause = f"{n} thread(s): {done.stderr.strip().splitlines()[-1]}"
            tally.add("1 or 2 threads", "crashed", cause)
            return
        with np.load(path) as file:
            scores.append({name: file[name] for name in file.files})
    for name, one in scores[0].items():
        far = float(np.abs(one - scores[1][name]).max() / max(np.abs(one).max(), 1e-300))
        right = far <= 1e-10
        cause = "1 or 2 threads differ by more than 1e-10"
        tally.add("1 or 2 threads", "right" if right else "wrong", cause, f"{name}: {far:.1e}")


def run(moments: int = 3, seed: int = 0, tally: Tally | None = None) -> list[Row]:
    """Disturb every command at so many random moments of its life."""
    tally = Tally() if tally is None else tally
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="marda-torture-") as name:
        base = Path(name)
        inputs(base)
        for command in commands(base):
            _disturb(command, base, moments, rng, tally)
        threads(base, tally)
    return tally.rows()


def _disturb(command: Command, base: Path, moments: int, rng: random.Random, tally: Tally) -> None:
    calm = base / "calm"
    calm.mkdir()
    ended = call(command.arguments(calm))
    wanted = command.results(calm) if ended.code == 0 else {}
    shutil.rmtree(calm)
    if not wanted:
        tally.add(command.name, "crashed", f"undisturbed: {ended.error.strip()[-160:]!r}")
        return

    def record(what: str, cause: str, refused: bool, example: str) -> None:
        outcome = "wrong" if cause else ("refused" if refused else "right")
        tally.add(f"{command.name}, {what}", outcome, f"{command.name}, {what}: {cause}", example)

    for kind, codes in ((signal.SIGINT, (0, 130)), (signal.SIGKILL, (0, -9))):
        for _ in range(moments):
            at = rng.uniform(0.05, 1.05) * ended.seconds
            folder = base / "cut"
            folder.mkdir()
            cut = call(command.arguments(folder), stop=(kind, at))
            early = kind == signal.SIGINT and cut.code == -2 and not cut.error  # Python not yet up
            cause = "" if early else check(command, folder, cut, wanted, codes)
            cause = cause or again(command, folder, command.results(folder), wanted)
            what = f"{kind.name} and once more"
            record(what, cause, False, f"after {at:.2f} of {ended.seconds:.2f} s")
            shutil.rmtree(folder)

    with small_disk(base) as (place, limits):
        full = call(command.arguments(place), limits=limits)
        cause = check(command, place, full, wanted, (0, 1, 2))
        record("full disk", cause, full.code != 0, full.error.strip()[-200:])
    shutil.rmtree(base / "small")
    with closed_folder(base) as closed:
        if closed is not None:
            shut = call(command.arguments(closed))
            cause = "" if shut.code else "ended well, but nothing can have been written"
            cause = cause or check(command, closed, shut, wanted, (1, 2))
            record("read-only folder", cause, True, shut.error.strip()[-200:])
    shutil.rmtree(base / "closed")
    for megabytes in (300, 600, 1200, 2400):
        folder = base / "tight"
        folder.mkdir()
        tight = call(command.arguments(folder), limits={resource.RLIMIT_AS: megabytes * 2**20})
        # Libraries below Python end the process where memory is short: files must be whole then.
        cause = check(command, folder, tight, wanted, (0, 1, 2, 127, -signal.SIGABRT))
        record("ulimit -v", cause, tight.code != 0, f"{megabytes} MB: {tight.error.strip()[-200:]}")
        shutil.rmtree(folder)


def table(n: int) -> Outcome:
    """The section of `python -m scripts.torture`."""
    tally = Tally()
    run(n, tally=tally)
    return tally.outcome()


def main(argv: list[str] | None = None) -> int:
    """Print the table and the causes; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moments", type=int, default=3, help="signals of a kind, a command")
    parser.add_argument("--seed", type=int, default=0)
    args: Any = parser.parse_args(argv)
    tally = Tally()
    rows = run(args.moments, args.seed, tally)
    print("\n".join([*tally.outcome().lines(), *tally.causes()]))
    return int(any(row.wrong or row.crashed for row in rows))


if __name__ == "__main__":
    sys.exit(main())
