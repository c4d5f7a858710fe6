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
from marda.benchmarks.runner import how_it_ended
from marda.benchmarks.store import describe
from marda.io.writing import write_text


@dataclass(frozen=True)
class Claim:
    """A case with its arguments, what it is compared with, and the bound it must keep.

    ``seconds`` is how long it takes (`docs/performance.json`, two cores): only ratios matter, for
    the time left. ``quick`` are arguments that are tiny, for which there is no bound.
    """

    title: str
    case: Callable[..., dict[str, Any]]
    args: dict[str, Any] = field(default_factory=dict)
    reference: str = ""
    at_least: float | None = None
    at_most: float | None = None
    seconds: float = 3.0
    quick: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """What ``--only`` calls the case."""
        return self.case.__name__

    def holds(self, figures: dict[str, Any]) -> bool:
        """Whether the measured ratio keeps its bound."""
        ratio = figures["ratio"]
        low = self.at_least is None or ratio >= self.at_least
        return bool(low and (self.at_most is None or ratio <= self.at_most))


def _worded(claim: Claim) -> Claim:
    """The claim with its arguments in its title and reference; ``half``: rows of one domain."""
    figures = {**claim.args, "half": claim.args.get("n", 0) // 2}
    title, reference = claim.title.format(**figures), claim.reference.format(**figures)
    return replace(claim, title=title, reference=reference)


BARTELS = "scipy's Bartels–Stewart (solve_sylvester) in every alternation"
PRIMAL = "the d×d route"
ESTIMATE = "the cost model's estimate"
CHOLESKY = "one Cholesky factorisation of {n:,} rows"
OWN_PREDICTIONS = "predictions of its model file"
FIRST_PRODUCT = "the product of the rows with the member's matrix"
NUMPY = "numpy on the same machine"
_CLAIMS = [
    Claim("J12, 3 alternations, d={d:,}", cases.alternation, {"d": 1000}, BARTELS, at_least=10,
          seconds=12, quick={"d": 120}),
    Claim("J12, 3 alternations, d={d:,}", cases.alternation, {"d": 2000}, BARTELS, at_least=40,
          seconds=108),
    Claim("J12 to tol=1e-5, d={d:,}", cases.joint, {"d": 4000}, "S1's own fit", at_most=3,
          seconds=24, quick={"d": 120}),
    Claim("S1, d={d:,}", cases.blas_share, {"d": 4000}, "its own profile", at_least=0.7, seconds=9,
          quick={"d": 200}),
    Claim("S1's residual_, d={d:,}", cases.checking, {"d": 2000}, "the whole fit", at_most=0.03,
          seconds=5, quick={"d": 200}),
    Claim("S1 fit, d={d:,}", cases.floor, {"d": 4000}, "the unavoidable products alone",
          seconds=25, quick={"d": 200}),
    Claim("S1D by the dual, {n:,} × {d:,}", cases.dual, {"method": "S1D", "n": 1000, "d": 4096},
          PRIMAL, at_least=4, seconds=15, quick={"method": "S1D", "n": 60, "d": 240}),
    Claim("J12 by the dual, {n:,} × {d:,}", cases.dual, {"method": "J12", "n": 1000, "d": 4096},
          PRIMAL, at_least=4, seconds=40),
    Claim("noise path, {levels} levels, d={d:,}", cases.path, {"d": 2000, "levels": 20},
          "one S1 fit", at_most=5, seconds=6, quick={"d": 150, "levels": 5, "columns": 3}),
    Claim("search of 50 candidates, {n:,} × {d:,}", cases.search, {"n": 2000, "d": 1000},
          "one separate fit", at_most=8, seconds=11, quick={"n": 120, "d": 60}),
    Claim("search of 50 candidates, {n:,} × {d:,}, features of many scales", cases.search,
          {"n": 1000, "d": 4000, "many_scales": True}, "one separate fit", at_most=8, seconds=25),
    Claim("J12C, {n:,} × {d:,} dense float32", cases.memory,
          {"method": "J12C", "kind": "dense", "n": 600, "d": 50_000}, ESTIMATE, at_least=1 / 1.5,
          at_most=1.5, seconds=81, quick={"method": "J12C", "kind": "dense", "n": 60, "d": 500}),
    Claim("S1D, {n:,} × {d:,} sparse", cases.memory,
          {"method": "S1D", "kind": "sparse", "n": 4000, "d": 200_000}, ESTIMATE,
          at_least=1 / 1.5, at_most=1.5, seconds=27),
    Claim("the default's fit, {n:,} × {d:,} sparse", cases.default, {"n": 4000, "d": 5000},
          CHOLESKY, at_most=45, seconds=18, quick={"n": 300, "d": 600}),
    Claim("the default's fit, {n:,} × {d:,}", cases.default,
          {"kind": "dense", "n": 2081, "d": 4608}, CHOLESKY, seconds=12),
    Claim("ONNX graph of the default, {n:,} × {d:,} words", cases.serving, {"n": 4000, "d": 5000},
          OWN_PREDICTIONS, seconds=30),
    Claim("ONNX graph of the default, {n:,} × {d:,}", cases.serving,
          {"kind": "dense", "n": 2081, "d": 4608}, OWN_PREDICTIONS, at_most=1.5, seconds=18),
    Claim("the default's fit, {n:,} + {n:,} × {d}", cases.all_rows,
          {"n": 200_000, "d": 50, "sample": 10_000},
          "its fit on a sample of {sample:,} + {sample:,} of these rows", at_most=2, seconds=30,
          quick={"n": 4000, "d": 5, "sample": 200}),
    Claim("predictions, {half:,} × {d:,}", cases.prediction, {"n": 2000, "d": 4608},
          FIRST_PRODUCT, at_most=2.5, seconds=6, quick={"n": 120, "d": 600}),
    Claim("predictions, {half:,} × {d:,} sparse", cases.prediction,
          {"kind": "sparse", "n": 2000, "d": 5000}, FIRST_PRODUCT, at_most=5, seconds=5),
    Claim("S1D fit, {n:,} × {d:,}", cases.peers, {"n": 1000, "d": 2048},
          "skada's CORAL and SubspaceAlignment fits", seconds=13),
    Claim("OC10 unsupervised table", cases.oc10, {}, "solver='primal'", at_least=3, seconds=2760),
]  # fmt: skip
#: Only where they are asked for: they need a GPU.
_DEVICE_CLAIMS = [
    Claim(f"{name} by torch, {{n:,}} × {{d:,}}", cases.gpu, {"method": method, **sizes}, NUMPY,
          quick={"method": method, **tiny, "device": "cpu"})
    for name, method, sizes, tiny in (
        ("S1", "S1", {"n": 20_000, "d": 30_000}, {"n": 60, "d": 30}),
        ("J12", "J12", {"n": 12_288, "d": 8192}, {"n": 60, "d": 30}),
        ("the default", "auto", {"n": 4000, "d": 5000}, {"n": 300, "d": 600}),
    )
]  # fmt: skip


def _tiny(claims: Sequence[Claim]) -> list[Claim]:
    bare: dict[str, Any] = {"at_least": None, "at_most": None, "seconds": 3.0}
    return [_worded(replace(c, args=c.quick, **bare)) for c in claims if c.quick is not None]


PLAN, QUICK = [_worded(claim) for claim in _CLAIMS], _tiny(_CLAIMS)
ON_DEVICE, ON_DEVICE_QUICK = [_worded(c) for c in _DEVICE_CLAIMS], _tiny(_DEVICE_CLAIMS)


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
