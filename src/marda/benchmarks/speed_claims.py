"""Speed claims: each case with the bound its ratio must keep, measured in a fresh process.

``marda bench`` runs them and writes the figures as JSON and as a page.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from marda._machine import blas_threads, machine_facts
from marda._progress import Progress
from marda.benchmarks import speed_cases as cases
from marda.benchmarks.plan import PlanError
from marda.benchmarks.render import write_text
from marda.benchmarks.runner import how_it_ended
from marda.benchmarks.store import describe

__all__ = ["PLAN", "QUICK", "Claim", "measure", "render", "run"]


@dataclass(frozen=True)
class Claim:
    """A case with its arguments, what it is compared with, and the bound it must keep.

    ``seconds`` is how long it takes (`docs/performance.json`, two cores): only ratios matter, for
    the time left.
    """

    title: str
    case: Callable[..., dict[str, Any]]
    args: dict[str, Any] = field(default_factory=dict)
    reference: str = ""
    at_least: float | None = None
    at_most: float | None = None
    seconds: float = 3.0

    @property
    def name(self) -> str:
        """What ``--only`` calls the case."""
        return self.case.__name__

    def holds(self, figures: dict[str, Any]) -> bool:
        """Whether the measured ratio keeps its bound."""
        ratio = figures["ratio"]
        low = self.at_least is None or ratio >= self.at_least
        return bool(low and (self.at_most is None or ratio <= self.at_most))


BARTELS = "scipy's Bartels–Stewart (solve_sylvester) in every alternation"
PRIMAL = "the d×d route"
ONE_FIT = "one separate fit"
OWN_PREDICTIONS = "predictions of its model file"
FIRST_PRODUCT = "the product of the rows with the member's matrix"
PLAN = [
    Claim(
        "J12, 3 alternations, d=1,000",
        cases.alternation,
        {"d": 1000},
        BARTELS,
        at_least=10,
        seconds=12,
    ),
    Claim(
        "J12, 3 alternations, d=2,000",
        cases.alternation,
        {"d": 2000},
        BARTELS,
        at_least=40,
        seconds=108,
    ),
    Claim(
        "J12 to tol=1e-5, d=4,000", cases.joint, {"d": 4000}, "S1's own fit", at_most=3, seconds=24
    ),
    Claim("S1, d=4,000", cases.blas_share, {"d": 4000}, "its own profile", at_least=0.7, seconds=9),
    Claim("S1's residual_, d=2,000", cases.checking, {}, "the whole fit", at_most=0.03, seconds=5),
    Claim(
        "S1 fit, d=4,000", cases.floor, {"d": 4000}, "the unavoidable products alone", seconds=25
    ),
    Claim(
        "S1D by the dual, 1,000 × 4,096",
        cases.dual,
        {"method": "S1D"},
        PRIMAL,
        at_least=4,
        seconds=15,
    ),
    Claim(
        "J12 by the dual, 1,000 × 4,096",
        cases.dual,
        {"method": "J12"},
        PRIMAL,
        at_least=4,
        seconds=40,
    ),
    Claim("noise path, 20 levels, d=2,000", cases.path, {}, "one S1 fit", at_most=5, seconds=6),
    Claim(
        "search of 50 candidates, 2,000 × 1,000",
        cases.search,
        {},
        "one separate fit",
        at_most=8,
        seconds=11,
    ),
    Claim(
        "search of 50 candidates, 1,000 × 4,000, features of many scales",
        cases.search,
        {"n": 1000, "d": 4000, "many_scales": True},
        ONE_FIT,
        at_most=8,
        seconds=25,
    ),
    Claim(
        "J12C, 600 × 50,000 dense float32",
        cases.memory,
        {"method": "J12C", "kind": "dense", "n": 600, "d": 50_000},
        "the cost model's estimate",
        at_least=1 / 1.5,
        at_most=1.5,
        seconds=81,
    ),
    Claim(
        "S1D, 4,000 × 200,000 sparse",
        cases.memory,
        {"method": "S1D", "kind": "sparse", "n": 4000, "d": 200_000},
        "the cost model's estimate",
        at_least=1 / 1.5,
        at_most=1.5,
        seconds=27,
    ),
    Claim(
        "the default's fit, 4,000 × 5,000 sparse",
        cases.default,
        {},
        "one Cholesky factorisation of 4,000 rows",
        at_most=45,
        seconds=18,
    ),
    Claim(
        "the default's fit, 2,081 × 4,608",
        cases.default,
        {"kind": "dense", "n": 2081, "d": 4608},
        "one Cholesky factorisation of 2,081 rows",
        seconds=12,
    ),
    Claim(
        "ONNX graph of the default, 4,000 × 5,000 words",
        cases.serving,
        {},
        OWN_PREDICTIONS,
        seconds=30,
    ),
    Claim(
        "ONNX graph of the default, 2,081 × 4,608",
        cases.serving,
        {"kind": "dense", "n": 2081, "d": 4608},
        OWN_PREDICTIONS,
        at_most=1.5,
        seconds=18,
    ),
    Claim(
        "the default's fit, 200,000 + 200,000 × 50",
        cases.all_rows,
        {},
        "its fit on a sample of 10,000 + 10,000 of these rows",
        at_most=2,
        seconds=30,
    ),
    Claim(
        "predictions, 1,000 × 4,608", cases.prediction, {}, FIRST_PRODUCT, at_most=2.5, seconds=6
    ),
    Claim(
        "predictions, 1,000 × 5,000 sparse",
        cases.prediction,
        {"kind": "sparse", "d": 5000},
        FIRST_PRODUCT,
        at_most=5,
        seconds=5,
    ),
    Claim(
        "S1D fit, 1,000 × 2,048",
        cases.peers,
        {},
        "skada's CORAL and SubspaceAlignment fits",
        seconds=13,
    ),
    Claim("OC10 unsupervised table", cases.oc10, {}, "solver='primal'", at_least=3, seconds=2760),
]
#: Only where they are asked for: they need a GPU.
NUMPY = "numpy on the same machine"
ON_DEVICE = [
    Claim("S1 on a GPU, 20,000 × 30,000", cases.gpu, {}, NUMPY),
    Claim(
        "J12 on a GPU, 12,288 × 8,192", cases.gpu, {"method": "J12", "n": 12_288, "d": 8192}, NUMPY
    ),
    Claim(
        "the default on a GPU, 4,000 × 5,000",
        cases.gpu,
        {"method": "auto", "n": 4000, "d": 5000},
        NUMPY,
    ),
]
ON_DEVICE_QUICK = [
    Claim("S1 by torch", cases.gpu, {"n": 60, "d": 30, "device": "cpu"}, NUMPY),
    Claim("J12 by torch", cases.gpu, {"method": "J12", "n": 60, "d": 30, "device": "cpu"}, NUMPY),
    Claim(
        "the default by torch",
        cases.gpu,
        {"method": "auto", "n": 300, "d": 600, "device": "cpu"},
        NUMPY,
    ),
]
QUICK = [
    Claim("J12, 3 alternations, d=120", cases.alternation, {"d": 120}, BARTELS),
    Claim("J12 to tol=1e-5, d=120", cases.joint, {"d": 120}, "S1's own fit"),
    Claim("S1, d=200", cases.blas_share, {"d": 200}, "its own profile"),
    Claim("S1's residual_, d=200", cases.checking, {"d": 200}, "the whole fit"),
    Claim("S1 fit, d=200", cases.floor, {"d": 200}, "the unavoidable products alone"),
    Claim("S1D by the dual", cases.dual, {"method": "S1D", "n": 60, "d": 240}, PRIMAL),
    Claim("noise path, d=150", cases.path, {"d": 150, "levels": 5, "columns": 3}, "one S1 fit"),
    Claim(
        "the default's fit, 300 × 600 sparse",
        cases.default,
        {"n": 300, "d": 600},
        "one Cholesky factorisation of 300 rows",
    ),
    Claim(
        "the default's fit, 4,000 + 4,000 × 5",
        cases.all_rows,
        {"n": 4000, "d": 5, "sample": 200},
        "its fit on a sample of 200 + 200 of these rows",
    ),
    Claim("search of 50 candidates, d=60", cases.search, {"n": 120, "d": 60}, ONE_FIT),
    Claim("predictions, d=600", cases.prediction, {"n": 120, "d": 600}, FIRST_PRODUCT),
    Claim(
        "J12C, dense float32",
        cases.memory,
        {"method": "J12C", "kind": "dense", "n": 60, "d": 500},
        "the cost model's estimate",
    ),
]


def _measure(claim: Claim, timeout: float, tell: Callable[[float], None]) -> dict[str, Any]:
    """The figures of one case, or why there are none; meanwhile, what share of it is done."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(theirs, claim.case, claim.args))
    process.start()
    theirs.close()
    deadline = time.monotonic() + timeout
    try:
        while ours.poll(max(0.0, deadline - time.monotonic())):
            told = json.loads(ours.recv_bytes())
            if isinstance(told, dict):
                return told
            tell(told)
        return {"error": f"took longer than {timeout:.0f} s"}
    except EOFError:
        process.join()
        return {"error": how_it_ended(process.exitcode)}
    finally:
        ours.close()
        process.kill()
        process.join()


def _serve(
    pipe: Connection, case: Callable[..., dict[str, Any]], arguments: dict[str, Any]
) -> None:
    """In the fresh process: one case, its figures as JSON; before them, shares that are done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one that measures ends this one
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # warnings of solvers; errors go over the pipe
    if case is cases.oc10:
        arguments = {**arguments, "tell": lambda share: pipe.send_bytes(json.dumps(share).encode())}
    try:
        figures = {**case(**arguments), "blas_threads": blas_threads()}
    except Exception as error:
        figures = {"error": describe(error)}
    pipe.send_bytes(json.dumps(figures).encode())


def run(plan: Sequence[Claim], timeout: float, progress: Progress | None = None) -> dict[str, Any]:
    """Measure every claim, one process at a time."""
    results = []
    whole, done = sum(claim.seconds for claim in plan), 0.0
    with progress or Progress(show=False) as display:
        for claim in plan:

            def tell(share: float, claim: Claim = claim, done: float = done) -> None:
                display((done + share * claim.seconds) / whole, claim.title)

            tell(0.0)
            started = time.monotonic()
            figures = _measure(claim, timeout, tell)
            seconds = round(time.monotonic() - started, 1)
            holds = None if "error" in figures else claim.holds(figures)
            told = figures.get("error") or f"ratio {figures['ratio']:.3g}, holds: {holds}"
            print(f"{claim.title}: {told}", flush=True)
            results.append(
                {
                    "title": claim.title,
                    "case": claim.name,
                    "reference": claim.reference,
                    "at_least": claim.at_least,
                    "at_most": claim.at_most,
                    "holds": holds,
                    "seconds": seconds,
                    "figures": figures,
                }
            )
            done += claim.seconds
    return {"machine": machine_facts(), "results": results}


def measure(
    figures: Path,
    page: Path,
    *,
    quick: bool = False,
    only: Sequence[str] = (),
    tasks: int = 12,
    timeout: float = 3600.0,
    progress: Progress | None = None,
) -> int:
    """Run cases and write both files; 1 if a bound does not hold.

    Parameters
    ----------
    figures, page : Path
        JSON and Markdown. Cases that ``only`` leaves out keep what the JSON file says of them.
    quick : bool
        Tiny sizes: checks that everything runs.
    only : sequence of str
        Names of cases (default: all but `gpu`, which needs one).
    tasks : int
        Of the OC10 table, 12 in all. Finished ones are stored beside ``figures`` until the case is.
    timeout : float
        Seconds for one case.
    progress : Progress, default=None
        Shows what is done and the time left.
    """
    plan = QUICK if quick else PLAN
    if only:
        plan = plan + (ON_DEVICE_QUICK if quick else ON_DEVICE)
        names = sorted({claim.name for claim in plan})
        unknown = [name for name in only if name not in names]
        if unknown:
            raise PlanError(f"there is no case {unknown[0]!r}: choose from {', '.join(names)}.")
        plan = [claim for claim in plan if claim.name in only]
    kept = figures.with_suffix(".oc10.sqlite").absolute()
    plan = [_oc10(claim, tasks, kept) for claim in plan]
    outcome = run(plan, timeout, progress)
    finished = any(r["case"] == "oc10" and r["holds"] is not None for r in outcome["results"])
    if only and figures.exists():
        outcome["results"] = _merged(json.loads(figures.read_text()), outcome["results"])
    write_text(figures, json.dumps(outcome, indent=1) + "\n")
    write_text(page, render(outcome))
    if finished:
        kept.unlink(missing_ok=True)  # the JSON holds its tasks now
    print(f"wrote {figures} and {page}")
    return 1 if any(r["holds"] is False or r["holds"] is None for r in outcome["results"]) else 0


def _oc10(claim: Claim, tasks: int, kept: Path) -> Claim:
    """The OC10 case on the first tasks, with a title that says so, and the file it resumes from."""
    if claim.case is not cases.oc10:
        return claim
    title = claim.title if tasks >= 12 else f"{claim.title}, {tasks} of 12 tasks"
    tasks = min(tasks, 12)
    seconds = claim.seconds * tasks / 12
    return replace(claim, title=title, args={"tasks": tasks, "keep": str(kept)}, seconds=seconds)


def _merged(old: dict[str, Any], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Earlier results with the new ones in their places."""

    def place(result: dict[str, Any]) -> str:
        # The title of the OC10 case tells how many tasks it ran; it is one case all the same.
        return str(result["case"] if result["case"] == "oc10" else result["title"])

    fresh = {place(r): r for r in new}
    kept = [fresh.pop(place(r), r) for r in old["results"]]
    return kept + list(fresh.values())


# The page -----------------------------------------------------------------------------------------

_HEAD = """# Performance

Generated by `make bench`: do not edit. Ratios are measured side by side in one run, every case in a
fresh process; absolute times depend on the machine.
"""


def _bound(result: dict[str, Any]) -> str:
    low, high = result["at_least"], result["at_most"]
    if low is not None and high is not None:
        return f"{low:.3g} … {high:.3g}"
    return f"≥ {low:.3g}" if low is not None else f"≤ {high:.3g}" if high is not None else "–"


def _detail(figures: dict[str, Any]) -> str:
    parts = []
    for key, value in figures.items():
        if key in ("ratio", "features", "rows", "method", "levels", "by_task"):
            continue
        if isinstance(value, float):
            form = ".1e" if key.startswith("difference") else ",.0f" if value >= 1000 else ".3g"
            shown = f"{value:{form}}"
        else:
            shown = str(value)
        name = key.replace("_", " ")
        for unit in ("s", "GB"):
            if name.endswith(f" {unit}"):
                name, shown = name[: -len(unit) - 1], f"{shown} {unit}"
        parts.append(f"{name} {shown}")
    return ", ".join(parts)


def _by_task(found: list[dict[str, Any]]) -> list[str]:
    lines = ["| task | solver='auto' | solver='primal' | ratio |", "| --- | --- | --- | --- |"]
    for task in found:
        ours, theirs = task["auto_s"], task["primal_s"]
        lines.append(f"| {task['task']} | {ours:.1f} s | {theirs:.1f} s | {theirs / ours:.2f} |")
    return lines


def render(outcome: dict[str, Any]) -> str:
    """The page, as Markdown."""
    lines = [
        _HEAD,
        "| what | against | ratio | wanted | holds | figures |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for result in outcome["results"]:
        figures = result["figures"]
        if "error" in figures:
            lines.append(
                f"| {result['title']} | {result['reference']} | – | {_bound(result)} | "
                f"not measured | {figures['error']} |"
            )
            continue
        bound = result["at_least"] is not None or result["at_most"] is not None
        holds = ("yes" if result["holds"] else "**no**") if bound else "–"
        lines.append(
            f"| {result['title']} | {result['reference']} | {figures['ratio']:.3g} | "
            f"{_bound(result)} | {holds} | {_detail(figures)} |"
        )
    for result in outcome["results"]:
        if found := result["figures"].get("by_task"):
            lines += ["", f"{result['title']}, task by task:", "", *_by_task(found)]
    machine = outcome["machine"]
    versions = ", ".join(f"{name} {v}" for name, v in machine["versions"].items())
    lines += [
        "",
        "The ratio is reference time over marda's, except: joint models and the noise path, where "
        "it is marda's time over that of one S1 fit; the profile, where it is the share of BLAS "
        "and LAPACK; the floor, where it is the fit's time over that of the products alone; "
        "predictions, where it is their time over that of one product; and memory, where it is "
        "estimate over measurement.",
        "",
        f"Machine: {machine['cores']} cores, {machine['system']}, Python {machine['python']}; "
        f"{'; '.join(machine['blas'])}; {versions}; {machine['date']}.",
        "",
    ]
    return "\n".join(lines)
