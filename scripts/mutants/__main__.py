"""Try the mutants of some modules, go on from earlier results, and write the page.

python -m scripts.mutants [--modules terms problem …] [--workers 2] [--minutes 30]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import pytest
from scripts.mutants.mutate import MODULES, Source
from scripts.mutants.page import page, table
from scripts.mutants.run import Results, Session, digest

ROOT = Path(__file__).resolve().parents[2]
#: Quick tests of what is mutated, and none that need more than the core and python-flint.
TESTS = (
    "tests/test_terms.py",
    "tests/test_noise.py",
    "tests/test_problem.py",
    "tests/test_solve.py",
    "tests/test_arrays_symmetric.py",
    "tests/operators",
    "tests/moments/test_stats.py",
    "tests/moments/test_accumulate.py",
    "tests/moments/test_numerics.py",
    "tests/test_reference.py",
    "tests/estimators/test_routes.py",
    "tests/estimators/test_right_or_refused.py",
    "tests/moments/test_accumulate_batches.py",
    "tests/moments/test_files.py",
    "tests/estimators/test_fitting.py",
    "tests/test_arrays.py",
    "tests/test_errata.py",
)
#: Seconds each, and what they see others see too.
SLOW = (
    "tests/estimators/test_routes.py::test_routes_agree",
    "tests/test_reference.py::test_the_command_prints_the_table",
)


def main(argv: list[str] | None = None) -> int:
    """Parse what is wanted, try it, write results and page."""
    parser = argparse.ArgumentParser(prog="python -m scripts.mutants", description=__doc__)
    parser.add_argument("--modules", nargs="+", default=MODULES, choices=MODULES, metavar="MODULE")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds of tests per mutant")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "mutants.json")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "mutation.md")
    parser.add_argument("--only-page", action="store_true", help="write the page from the results")
    args = parser.parse_args(argv)
    until = time.monotonic() + 60 * args.minutes
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # before numpy is loaded: a fork has no threads
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT / "src"))
    sources = [Source(ROOT, f"{module}.py") for module in args.modules]
    results = Results(args.results, digest(ROOT), args.budget).load()
    left = code = 0
    if not args.only_page:
        session = Session(sources, results, args.workers, until)
        tests = [test for test in TESTS if (ROOT / test).exists()]
        options = ["-p", "no:cacheprovider", "-p", "no:terminal", "--capture=no"]
        options += ["-o", "addopts=", "-m", "not slow and not data and not browser"]
        options += [f"--deselect={test}" for test in SLOW]
        code = int(pytest.main([*options, *tests], plugins=[session]))
        left = session.left
    everything = [Source(ROOT, f"{module}.py") for module in MODULES]
    if not code:
        args.page.parent.mkdir(parents=True, exist_ok=True)
        args.page.write_text(page(everything, results), encoding="utf-8")
    print(table(everything, results))
    if left:
        print(f"{left} mutants were not reached: run the command again, it goes on from here.")
    return code or bool(left)


if __name__ == "__main__":
    sys.exit(main())
