"""The cost model: flops and bytes of every route, and the choice between them.

Counts are leading terms for n rows (n_l labelled), d features, r outputs (d unless pivots are
used), C classes and z stored entries of X. One flop stands for one multiplication and addition in
a BLAS-3 product; what runs slower counts more, by factors measured once on two cores
(`BANDED_FACTOR`, `SPARSE_FACTOR`). They decide which side wins, so only their ratio matters.
"""

from __future__ import annotations

from dataclasses import dataclass

from marda._machine import available_memory, format_bytes

BANDED_FACTOR = 2.0  # a banded form of d×d against d³
SPARSE_FACTOR = 20.0  # an entry of a sparse product against one of a dense product
THIN_FACTOR = 3.0  # products with few columns are bound by memory, not by arithmetic
ALTERNATIONS = 25  # of a joint model: on average 18 on OC10 SURF, 30 on SqueezeNet, 45 on AMT
INNER_STEPS = 12.0  # conjugate gradients in one alternation, warm-started
CG_STEPS = 60.0  # conjugate gradients for one right-hand side without a factorisation
REFINED_STEPS = 2.0  # the same, preconditioned by the n×n matrices of few rows
FEW_ROWS = 1024  # eleven n×n matrices of so many take no more than WORKSPACE
PLAIN_CG_STEPS = 200.0  # the same for W = I: pessimistic, so that small fits are factorised
WORKSPACE = 96 * 2**20  # chunks, and what BLAS takes


@dataclass(frozen=True)
class Workload:
    """What decides the cost of a fit."""

    n_rows: int
    n_labelled: int
    n_features: int
    n_outputs: int
    n_classes: int
    n_stored: int  # entries of X that are kept: n·d, or the non-zeros of sparse X
    itemsize: int  # bytes of an entry
    sparse: bool = False
    joint: bool = False
    coupled: bool = False  # several prediction terms: no banded form
    domain: bool = False
    predictor: bool = True
    plain: bool = False  # W = I (BL, MCF): one ridge of the labelled rows, or nothing to solve

    @property
    def bytes_rows(self) -> float:
        """X, as it is kept (a sparse entry has an index)."""
        return self.n_stored * (self.itemsize + (4 if self.sparse else 0))


@dataclass(frozen=True)
class Cost:
    """Estimated work and peak memory beyond the caller's own arrays."""

    flops: float
    bytes: float


def _primal(w: Workload) -> Cost:
    n, d, r, C = w.n_rows, w.n_features, w.n_outputs, w.n_classes
    gram = SPARSE_FACTOR * w.n_stored**2 / max(n, 1) if w.sparse else n * d**2 / 2
    flops = gram + d**3 / 6 + (d**3 / 3 if r == d else d**2 * r)
    matrices = 4.0 * d * d + d * r  # two Grams, G and its factor, W₀
    if w.predictor or w.joint:
        flops += d**2 * r + d * r**2 + r**3 / 6
        matrices += 2.0 * d * r
    if w.domain:
        flops += r**3 / 6
    if w.joint:
        flops += r**3 / 6
        step = THIN_FACTOR * 8 * d**2 * C
        if w.coupled:
            flops += ALTERNATIONS * INNER_STEPS * step
        else:
            flops += BANDED_FACTOR * d**3 + ALTERNATIONS * step
            matrices += 2.0 * d * d
    return Cost(flops, 8 * matrices + WORKSPACE)


def _dual(w: Workload) -> Cost:
    n, n_l, d, C = w.n_rows, w.n_labelled, w.n_features, w.n_classes
    kernel = SPARSE_FACTOR * w.n_stored * n / 2 if w.sparse else n**2 * d / 2
    thin = THIN_FACTOR * (SPARSE_FACTOR if w.sparse else 1) * w.n_stored * C
    flops = kernel + n**3 / 2
    matrices = 3.0
    if w.predictor or w.joint:
        flops += 2 * kernel + n**2 * n_l + 3 * n**3
        matrices += 4.0
    if w.domain:
        flops += kernel + n**3 / 2 + INNER_STEPS * 4 * thin / max(C, 1)
        matrices += 2.0
    if w.joint:
        flops += kernel * (n_l / max(n, 1)) ** 2
        flops += ALTERNATIONS * INNER_STEPS * 4 * thin
        matrices += 2.0
    vectors = 12.0 * d * max(C, 2)
    return Cost(flops, 8 * (matrices * n * n + vectors) + w.bytes_rows + WORKSPACE)


def _iterative(w: Workload) -> Cost:
    n, d, r, C = w.n_rows, w.n_features, w.n_outputs, w.n_classes
    product = THIN_FACTOR * (SPARSE_FACTOR if w.sparse else 1) * w.n_stored
    pivots, few = r < d, n <= min(d, FEW_ROWS) and not w.plain
    steps = REFINED_STEPS if few else CG_STEPS
    memory = 0.0
    if w.plain:  # one more column where there is an intercept
        flops = 2 * PLAIN_CG_STEPS * product * (C + 1) if w.predictor else 0.0
    elif pivots:
        flops = 2 * steps * product * r + d * r**2 + r**3 / 6
        memory = 8 * (3.0 * d * r + 2 * r * r)
    else:  # every product with K₀ solves twice
        flops = 4 * steps**2 * product * C
    if w.joint:
        flops += ALTERNATIONS * steps * 4 * product * C
    if not pivots and not w.plain:  # the loss
        flops += 2 * steps * product * min(n, d)
    if few:  # all of the dual route is the preconditioner
        dual = _dual(w)
        flops += dual.flops
        memory += dual.bytes - w.bytes_rows - WORKSPACE
    vectors = 12.0 * d * max(C, 128)
    return Cost(flops, memory + 8 * vectors + w.bytes_rows + WORKSPACE)


def costs(work: Workload) -> dict[str, Cost]:
    """Estimated cost of every route."""
    return {"primal": _primal(work), "dual": _dual(work), "cg": _iterative(work)}


def routes(
    work: Workload, solver: str = "auto", *, dual: bool = True, limit: int | None = None
) -> list[tuple[str, Cost]]:
    """The routes that may be taken, with their estimates: the least work first.

    Parameters
    ----------
    work : Workload
        The fit.
    solver : {"auto", "primal", "dual", "cg"}
        "auto" takes the least work among the routes that fit in memory; "cg" only joins where
        pivots make it direct, and for a plain ridge of sparse rows, which has no W₀.
    dual : bool
        Whether the diagonal of G is positive, which the dual route needs (and "cg" of a ridge).
    limit : int, default=None
        Bytes at most; None asks the machine.

    Raises
    ------
    MemoryError
        If the route, or every route, needs more than the limit.
    """
    limit = available_memory() if limit is None else limit
    table = costs(work)
    if solver != "auto":
        if table[solver].bytes > limit:
            raise MemoryError(_refusal(f"solver={solver!r}", table[solver], limit, work))
        return [(solver, table[solver])]
    names = ["primal", "dual"] if dual else ["primal"]
    if work.n_outputs < work.n_features or (work.plain and work.sparse and dual):
        names.append("cg")
    fitting = [name for name in names if table[name].bytes <= limit]
    if not fitting:
        least = min(names, key=lambda name: table[name].bytes)
        raise MemoryError(_refusal(f"this fit (by {least!r})", table[least], limit, work))
    return [(name, table[name]) for name in sorted(fitting, key=lambda name: table[name].flops)]


def _refusal(what: str, cost: Cost, limit: int, work: Workload) -> str:
    table = costs(work)
    fits = [name for name in ("primal", "dual") if table[name].bytes <= limit]
    # What pivots may take beside the rows: W₀ with its products, and K₀.
    spare = limit - _iterative(work).bytes if work.n_outputs == work.n_features else 0.0
    pivots = int(spare // (8 * 4 * work.n_features))
    if fits:
        advice = f"solver={min(fits, key=lambda name: table[name].flops)!r} would fit"
    elif pivots >= 16:
        advice = f"n_pivots={min(pivots, 1000)} would fit, and so would solver='cg', slowly"
    elif table["cg"].bytes <= limit:
        advice = "solver='cg' would fit, slowly"
    else:
        advice = "use fewer rows or features, or a machine with more memory"
    return (
        f"{what} would take about {format_bytes(cost.bytes)} for {work.n_rows} rows × "
        f"{work.n_features} features, but {format_bytes(limit)} are free: {advice} "
        "(MARDA_MEMORY=… sets the limit)."
    )
