"""docs/mutation.md: figures per module, and every survivor with the reason why it lives."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from scripts.mutants.mutate import EXCLUDED, Mutant, Source
from scripts.mutants.run import KILLED, SURVIVED, TIMEOUT, UNTESTED, Results

REASONS = Path(__file__).with_name("reasons.toml")
INTRO = """\
# Mutation testing

`make mutants` makes small wrong changes to the numerical core, one at a time, and runs the quick
tests that reach the changed line until one fails. A change that no test notices survives. This page
is what the command wrote last; a run goes on from the results of the one before
(`build/mutants.json`), so it takes minutes after a change and about an hour from nothing.

Changes: an operator (`+` `-`, `*` `/`, `**` `*`), a comparison (its border, and its opposite), a
condition that always or never holds, `and` `or`, a sign or a `not` left out, a number plus one, a
truth value turned, a compared text, `max` `min`, `any` `all`, `zeros` `ones`, a root left out,
and a statement left out.

Not changed, because nothing that a test should see depends on it:

- docstrings, annotations, asserts (they are for the type checker), `__all__`;
- the text of messages (that a message comes, and when, is tested);
- numbers at the top of a module, which are tuning or limits with a reason beside them;
- arguments that say how a library works, not what comes out: {how};
"""


def reasons() -> dict[str, str]:
    """Why a mutant that no test kills is no gap, by its key."""
    groups = tomllib.loads(REASONS.read_text(encoding="utf-8")) if REASONS.exists() else {}
    return {key: group["why"] for group in groups.get("group", []) for key in group["mutants"]}


def _counts(source: Source, results: Results) -> Counter[str]:
    known = (results.of(mutant) for mutant in source.mutants)
    return Counter("not tried" if one is None else str(one["status"]) for one in known)


def table(sources: Sequence[Source], results: Results) -> str:
    """One row per module, and all together."""
    lines = [
        "| module | mutants | killed | of these by time | survived | killed, % | explained |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    total: Counter[str] = Counter()
    why, explained_of_all = reasons(), 0
    for source in sources:
        counts = _counts(source, results)
        explained = sum(mutant.key in why for mutant in _survivors(source, results))
        lines.append(_row(f"`{source.module}`", counts, explained))
        total += counts
        explained_of_all += explained
    return "\n".join([*lines, _row("all", total, explained_of_all)])


def _row(name: str, counts: Counter[str], explained: int) -> str:
    killed = counts[KILLED] + counts[TIMEOUT]
    survived = counts[SURVIVED] + counts[UNTESTED]
    tried = killed + survived
    rate = f"{100 * killed / tried:.1f}" if tried else "-"
    untried = f" ({counts['not tried']} not tried)" if counts["not tried"] else ""
    return (
        f"| {name} | {tried}{untried} | {killed} | {counts[TIMEOUT]} | {survived} | {rate} "
        f"| {explained} of {survived} |"
    )


def _survivors(source: Source, results: Results) -> list[Mutant]:
    return [
        mutant
        for mutant in source.mutants
        if (known := results.of(mutant)) is not None and known["status"] in (SURVIVED, UNTESTED)
    ]


def page(sources: Sequence[Source], results: Results) -> str:
    """The whole page."""
    how = "`check_finite`, `copy`, `order`, `overwrite_…`, `driver`, `dtype`, `strict`"
    parts = [INTRO.format(how=how)]
    for modules, functions, kinds, why in EXCLUDED:
        what = f"{', '.join(sorted(kinds))} of " if kinds else ""
        names = ", ".join(f"`{name}`" for name in functions.split())
        files = ", ".join(f"`{name}`" for name in modules.split())
        parts.append(f"- {what}{names} ({files}): {why};\n")
    parts += ["\n", table(sources, results), "\n\n## Survivors\n"]
    known = [results.of(mutant) for source in sources for mutant in _survivors(source, results)]
    budget = min((one["budget"] for one in known if one is not None), default=1e9)
    if budget < 1e9:
        parts.append(
            f"\nThis run gave each mutant {budget:g} seconds of tests, the nearest first: some of "
            "these may be killed by the others.\n"
        )
    why = reasons()
    for source in sources:
        survivors = _survivors(source, results)
        if not survivors:
            continue
        parts.append(f"\n### `{source.module}`\n\n")
        for mutant in survivors:
            number = f" (no. {mutant.count + 1})" if mutant.count else ""
            reason = why.get(mutant.key, "no test kills it yet.")
            parts.append(
                f"- `{mutant.function}`: `{mutant.before}` → `{mutant.after}`{number}: {reason}\n"
            )
    return "".join(parts)
