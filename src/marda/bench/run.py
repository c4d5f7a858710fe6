"""Run the benchmark cases, each in a fresh process; write JSON and a page."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from marda.bench.machine import blas_threads, machine

__all__ = ["PLAN", "QUICK", "Claim", "main", "run", "worker"]


@dataclass(frozen=True)
class Claim:
    """A case with its arguments, what it is compared with, and the bound it must keep."""

    title: str
    case: str
    args: dict[str, Any] = field(default_factory=dict)
    reference: str = ""
    at_least: float | None = None
    at_most: float | None = None

    def holds(self, figures: dict[str, Any]) -> bool:
        """Whether the measured ratio keeps its bound."""
        ratio = figures["ratio"]
        low = self.at_least is None or ratio >= self.at_least
        return bool(low and (self.at_most is None or ratio <= self.at_most))


BARTELS = "scipy's Bartels–Stewart (solve_sylvester) in every alternation"
PRIMAL = "the d×d route"
PLAN = [
    Claim("J12, 3 alternations, d=1,000", "alternation", {"d": 1000}, BARTELS, at_least=10),
    Claim("J12, 3 alternations, d=2,000", "alternation", {"d": 2000}, BARTELS, at_least=40),
    Claim("J12 to tol=1e-5, d=4,000", "joint", {"d": 4000}, "S1's own fit", at_most=6),
    Claim("S1, d=4,000", "blas_share", {"d": 4000}, "its own profile", at_least=0.7),
    Claim("S1 fit, d=4,000", "floor", {"d": 4000}, "the unavoidable products alone"),
    Claim("S1D by the dual, 1,000 × 4,096", "dual", {"method": "S1D"}, PRIMAL, at_least=4),
    Claim("J12 by the dual, 1,000 × 4,096", "dual", {"method": "J12"}, PRIMAL, at_least=4),
    Claim("noise path, 20 levels, d=2,000", "path", {}, "one S1 fit", at_most=5),
    Claim("search of 50 candidates, 2,000 × 1,000", "search", {}, "one separate fit", at_most=8),
    Claim(
        "search of 50 candidates, 1,000 × 4,000, features of many scales",
        "search",
        {"n": 1000, "d": 4000, "many_scales": True},
        "one separate fit",
        at_most=8,
    ),
    Claim(
        "J12C, 600 × 50,000 dense float32",
        "memory",
        {"method": "J12C", "kind": "dense", "n": 600, "d": 50_000},
        "the cost model's estimate",
        at_least=1 / 1.5,
        at_most=1.5,
    ),
    Claim(
        "S1D, 4,000 × 200,000 sparse",
        "memory",
        {"method": "S1D", "kind": "sparse", "n": 4000, "d": 200_000},
        "the cost model's estimate",
        at_least=1 / 1.5,
        at_most=1.5,
    ),
    Claim("S1D fit, 1,000 × 2,048", "peers", {}, "skada's CORAL and SubspaceAlignment fits"),
    Claim("OC10 unsupervised table", "oc10", {}, "solver='primal'", at_least=3),
]
QUICK = [
    Claim("J12, 3 alternations, d=120", "alternation", {"d": 120}, BARTELS),
    Claim("J12 to tol=1e-5, d=120", "joint", {"d": 120}, "S1's own fit"),
    Claim("S1, d=200", "blas_share", {"d": 200}, "its own profile"),
    Claim("S1 fit, d=200", "floor", {"d": 200}, "the unavoidable products alone"),
    Claim("S1D by the dual", "dual", {"method": "S1D", "n": 60, "d": 240}, PRIMAL),
    Claim("noise path, d=150", "path", {"d": 150, "levels": 5, "columns": 3}, "one S1 fit"),
    Claim("search of 50 candidates, d=60", "search", {"n": 120, "d": 60}, "one separate fit"),
    Claim(
        "J12C, dense float32",
        "memory",
        {"method": "J12C", "kind": "dense", "n": 60, "d": 500},
        "the cost model's estimate",
    ),
]


def worker(case: str, args: str) -> int:
    """Entry of the fresh process: one case, JSON on standard output."""
    from marda.bench.cases import CASES

    figures = CASES[case](**json.loads(args))
    print(json.dumps({**figures, "blas_threads": blas_threads()}))
    return 0


def _measure(claim: Claim, timeout: float) -> dict[str, Any]:
    command = [
        sys.executable,
        "-c",
        "import sys; from marda.bench.run import worker; worker(*sys.argv[1:])",
        claim.case,
        json.dumps(claim.args),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"took longer than {timeout:.0f} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return {"error": lines[-1]}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def run(plan: list[Claim], timeout: float) -> dict[str, Any]:
    """Measure every claim, one process at a time."""
    results = []
    for claim in plan:
        print(f"{claim.title} … ", end="", flush=True)
        figures = _measure(claim, timeout)
        holds = None if "error" in figures else claim.holds(figures)
        print(figures.get("error") or f"ratio {figures['ratio']:.3g}, holds: {holds}")
        results.append(
            {
                "title": claim.title,
                "case": claim.case,
                "reference": claim.reference,
                "at_least": claim.at_least,
                "at_most": claim.at_most,
                "holds": holds,
                "figures": figures,
            }
        )
    return {"machine": machine(), "results": results}


def main(argv: list[str] | None = None) -> int:
    """Command line of the benchmarks."""
    parser = argparse.ArgumentParser(prog="marda bench", description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("docs/performance.json"))
    parser.add_argument("--page", type=Path, default=Path("docs/performance.md"))
    parser.add_argument("--quick", action="store_true", help="tiny sizes: checks the harness only")
    parser.add_argument("--only", nargs="+", help="names of cases to run")
    parser.add_argument("--tasks", type=int, default=12, help="of the OC10 table (12 in all)")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds for one case")
    try:
        return measure(parser.parse_args(argv))
    except UnknownCase as error:
        parser.error(str(error))


class UnknownCase(OSError):
    """A case that does not exist was asked for."""


def measure(options: argparse.Namespace) -> int:
    """Run the cases that were asked for and write both files; 1 if a bound does not hold."""
    plan = QUICK if options.quick else PLAN
    if options.only:
        names = sorted({claim.case for claim in plan})
        unknown = [name for name in options.only if name not in names]
        if unknown:
            raise UnknownCase(f"there is no case {unknown[0]!r}: choose from {', '.join(names)}.")
        plan = [claim for claim in plan if claim.case in options.only]
    kept = options.json.with_suffix(".oc10.jsonl").absolute()
    plan = [_oc10(claim, options.tasks, kept) for claim in plan]
    outcome = run(plan, options.timeout)
    finished = any(r["case"] == "oc10" and r["holds"] is not None for r in outcome["results"])
    if options.only and options.json.exists():
        outcome["results"] = _merged(json.loads(options.json.read_text()), outcome["results"])
    from marda.bench.page import render

    for path, text in (
        (options.json, json.dumps(outcome, indent=1) + "\n"),
        (options.page, render(outcome)),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if finished:
        kept.unlink(missing_ok=True)  # the JSON holds its tasks now
    print(f"wrote {options.json} and {options.page}")
    return 1 if any(r["holds"] is False or r["holds"] is None for r in outcome["results"]) else 0


def _oc10(claim: Claim, tasks: int, kept: Path) -> Claim:
    """The OC10 case on the first tasks, with a title that says so, and the file it resumes from."""
    if claim.case != "oc10":
        return claim
    title = claim.title if tasks >= 12 else f"{claim.title}, {tasks} of 12 tasks"
    return replace(claim, title=title, args={"tasks": min(tasks, 12), "keep": str(kept)})


def _merged(old: dict[str, Any], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Earlier results with the new ones in their places."""

    def place(result: dict[str, Any]) -> str:
        # The title of the OC10 case tells how many tasks it ran; it is one case all the same.
        return str(result["case"] if result["case"] == "oc10" else result["title"])

    fresh = {place(r): r for r in new}
    kept = [fresh.pop(place(r), r) for r in old["results"]]
    return kept + list(fresh.values())
