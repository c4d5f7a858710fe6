"""Run sections of torture and print a table of each; exit code 1 if anything was not held.

A section is a module of this folder that has

    LONG, SHORT : int          how much is tried by hand and in CI
    UNIT : str                 what is counted
    table(n) -> Outcome        the work
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context

from scripts.torture.outcome import table_of

SECTIONS = ("files", "estimators", "processes")


def main(argv: list[str] | None = None) -> int:
    """Parse the sections wanted, run them, print their tables."""
    parser = argparse.ArgumentParser(prog="python -m scripts.torture", description=__doc__)
    parser.add_argument("--short", action="store_true", help="what CI runs")
    modules = {name: import_module(f"scripts.torture.{name}") for name in SECTIONS}
    for name, module in modules.items():
        text = f"{module.UNIT} (default: {module.LONG}, short: {module.SHORT})"
        parser.add_argument(f"--{name}", type=int, metavar="N", help=text)
    args = parser.parse_args(argv)
    asked = {name: getattr(args, name) for name in SECTIONS if getattr(args, name) is not None}
    if not asked:
        asked = {n: m.SHORT if args.short else m.LONG for n, m in modules.items()}
    failures = []
    # Beside each other: each is a single process for much of its time.
    with ProcessPoolExecutor(len(asked), mp_context=get_context("spawn")) as pool:
        tables = pool.map(table_of, asked, asked.values())
        for (name, n), (outcome, seconds) in zip(asked.items(), tables, strict=True):
            print(f"\n## {name}: {n} {modules[name].UNIT}, {seconds:.0f} s\n")
            print("\n".join(outcome.lines()), flush=True)
            failures += [f"{name}: {failure}" for failure in outcome.failures]
    print(f"\n{len(failures)} failures" if failures else "\nnothing failed")
    for failure in failures[:40]:
        print(f"- {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
