"""Record what every command prints, as a person sees it, in docs/commands.md; or check the page.

    python scripts/transcripts.py                   # record again
    python scripts/transcripts.py --check           # 1 if the page is not what the commands print
    python scripts/transcripts.py --check --quick   # without the calls that take long

To show another call, add a line to `CALLS`. All run one after the other in one folder, which holds
the files of docs/files (`make_files` makes them). Times, paths and versions are not compared, and
figures may differ by rounding, of which libraries have their own.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
PAGE, FILES = ROOT / "docs" / "commands.md", ROOT / "docs" / "files"
CUSTOMERS = "--source customers-2023.csv --target customers-2024.csv --label churned"


class Call(NamedTuple):
    """A call, what it is for, and how many lines of it are shown (None: all).

    Those that take `long` are left out of a quick check; where it `varies` with the machine, no
    figure is compared, nor the order of the lines.
    """

    line: str
    why: str
    shown: int | None = None
    long: bool = False
    varies: bool = False


CALLS = (
    Call("marda --help", "What there is"),
    Call(f"marda check {CUSTOMERS}", "Do the two files differ, and does it matter?"),
    Call(f"marda adapt {CUSTOMERS}", "From two messy files to a verdict"),
    Call(
        f"marda adapt {CUSTOMERS} --method S1D --out p.csv --model m.marda --quiet",
        "One model of the framework, predictions and a model file",
    ),
    Call(f"marda adapt {CUSTOMERS} --out p.csv", "A file that is there is not replaced"),
    Call(
        "marda adapt --source customers-2023.csv --target customers-2024.csv --label churn",
        "A wrong name",
    ),
    Call("marda predict --model m.marda --input customers-2024.csv --out new.csv", "New rows"),
    Call(
        "marda predict --model m.marda --input customers-2024.csv --out why.csv --explain 2",
        "New rows, and what moved each score",
    ),
    Call(
        "marda label --model m.marda --input customers-2024.csv --budget 5 --out rows.csv",
        "Which rows to label next",
    ),
    Call(
        "marda evaluate --model m.marda --input customers-2023.csv --label churned",
        "How good is it on rows with labels? (Here on those it learned from, for want of others.)",
    ),
    Call(f"marda compare {CUSTOMERS} --methods BL S1D logistic forest CORAL SA", "Which method?"),
    Call("marda demo", "What is it good for?", long=True, varies=True),
    Call(
        "marda reproduce --settings auto --datasets generated --tasks 'same d=10' 'shares .5>.1' "
        "--models source-only --draws 2 --jobs 1",
        "Benchmarks: here two generated ones, so that no data are needed",
        long=True,
        varies=True,
    ),
    Call("marda report marda-results --out results.html", "A page of what was stored", long=True),
    Call(
        "marda bench --quick --only alternation path",
        "How fast? (Tiny sizes, which show that it runs.)",
        long=True,
        varies=True,
    ),
    Call("marda data list", "Data sets, and where they are from"),
    Call("marda data path penguins", "Where one is"),
    Call("marda data check penguins", "Whether it is whole"),
    Call(
        "marda moments sql --table visits --features age,dose --label y --domain a",
        "Statistics from a database",
        8,
    ),
    Call("marda moments build a.parquet --domain a --label y -o a.moments", "Statistics of rows"),
    Call("marda moments build b.parquet --domain b --role target -o b.moments", "Of others"),
    Call("marda moments merge a.moments b.moments -o both.moments", "Added up"),
    Call("marda moments show both.moments", "What a file holds"),
    Call(
        "marda adapt --moments both.moments --method S1 --model both.marda",
        "A model from statistics alone",
    ),
    Call("marda completion bash", "For the shell", 4),
)


def make_files(folder: Path) -> None:
    """Customers as two offices export them: whoever leaves has written or paid little."""
    rng = np.random.default_rng(0)

    def rows(n: int, lift: float) -> list[list[object]]:
        churned = rng.random(n) < 0.4
        spent = np.exp(rng.normal(6.0 + lift, 0.6, n) - 0.9 * churned)
        visits = rng.poisson(np.where(churned, 3, 9) * (1 + lift / 2))
        share = np.clip(rng.normal(0.30 + 0.15 * churned, 0.1, n), 0.01, 0.99)
        plan = np.where(rng.random(n) < 0.3 + 0.3 * churned, "Basic", "Prämie")
        days = rng.integers(1, 28, n), rng.integers(1, 13, n), rng.integers(2015, 2023, n)
        return [
            [churned[k], spent[k], visits[k], share[k], plan[k], [int(d[k]) for d in days]]
            for k in range(n)
        ]

    def comma(value: float) -> str:
        whole, _, rest = f"{value:,.2f}".partition(".")
        return f"{whole.replace(',', '.')},{rest}"

    lines = ["Kunden-Export 2023", "", "customer_id;spent;visits;discount;plan;since;churned"]
    for k, (gone, spent, visits, share, plan, (d, m, y)) in enumerate(rows(160, 0.0)):
        lines.append(
            f"K-{10_000 + 7 * k};{comma(spent)} EUR;{visits};{100 * share:.0f} %;{plan};"
            f"{d:02}.{m:02}.{y};{'ja' if gone else 'nein'}"
        )
    (folder / "customers-2023.csv").write_bytes("\r\n".join([*lines, ""]).encode("cp1252"))
    lines = ["Customer ID,Spent,Visits,Discount,Plan,Since"]
    for k, (_, spent, visits, share, plan, (d, m, y)) in enumerate(rows(140, 0.5)):
        money, since = f'"€ {spent:,.2f}"', f"{y}-{m:02}-{d:02}"
        lines.append(f"K-{20_000 + 7 * k},{money},{visits},{100 * share:.0f}%,{plan},{since}")
    (folder / "customers-2024.csv").write_bytes("\n".join([*lines, ""]).encode("utf-8-sig"))


def make_parquet(folder: Path) -> None:
    """Rows of two hospitals, for `marda moments`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    for name, n in (("a", 60), ("b", 50)):
        y = np.arange(n) % 2
        columns = {f"f{j}": y + rng.normal(size=n) for j in range(3)}
        labels = {"y": y} if name == "a" else {}
        pq.write_table(pa.table({**columns, **labels}), folder / f"{name}.parquet")


def run(call: Call) -> str:
    """What a call prints, standard error below standard output, and its exit code if not 0."""
    from marda.cli import main

    words = shlex.split(call.line)
    assert words[0] == "marda"
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words[1:])
    lines = [line.rstrip() for line in (out.getvalue() + err.getvalue()).splitlines()]
    if call.shown is not None and len(lines) > call.shown:
        lines = [*lines[: call.shown], "…"]
    if code:
        lines.append(f"[exit code {code}]")
    return "\n".join(lines).strip("\n")


HEAD = (
    "# What the commands print\n\nRecorded by `scripts/transcripts.py`, which also checks that "
    "they still do. The customers are in two files as two offices export them: "
    "{download}`customers-2023.csv <files/customers-2023.csv>` (Windows-1252, semicolons, "
    "decimal commas, a title line) and {download}`customers-2024.csv "
    "<files/customers-2024.csv>` (UTF-8, commas, decimal points, other names)."
)


def record(calls: Sequence[Call] = CALLS) -> list[str]:
    """The section of every call."""
    parts = []
    before = Path.cwd(), os.environ.get("MARDA_DATA"), os.environ.get("COLUMNS")
    with tempfile.TemporaryDirectory() as folder:
        for file in FILES.glob("*.csv"):
            shutil.copy(file, folder)
        if any(".parquet" in call.line for call in calls):
            make_parquet(Path(folder))
        os.chdir(folder)
        os.environ.pop("MARDA_DATA", None)
        os.environ["COLUMNS"] = "100"
        try:
            for call in calls:
                text = run(call).replace(str(ROOT), "…").replace(folder, "…")
                text = re.sub(r"\S+/marda/datasets/", "…/marda/datasets/", text)
                parts.append(section(call, text))
        finally:
            os.chdir(before[0])
            for name, value in zip(("MARDA_DATA", "COLUMNS"), before[1:], strict=True):
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
    return parts


def section(call: Call, text: str) -> str:
    """A call and what it printed, as the page shows them."""
    return f"## {call.why}\n\n```console\n$ {call.line}\n{text}\n```"


TIME = re.compile(
    r"(\d+ (h|min) )*\d+(\.\d+)? (s|min|h|MB|GB|KB)\b|\d+ (bytes|B)\b|[0-9a-f]{16}|\d+\.\d+\.\d+\S*"
)
NUMBER = re.compile(r"(?<![\w.])[-+−]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")


#: Figures with what stands around them, where all of it depends on the machine.
FIGURES = re.compile(r"[\[(]?[-+−]?\d[\d,.]*%?[\])]?|#")


def differences(old: str, new: str, *, varies: bool = False) -> list[str]:
    """Lines that differ by more than times, paths, versions and rounding.

    Where it `varies`, figures and bars may be any, and lines come in any order.
    """
    found = []
    ours, theirs = ([TIME.sub("#", x) for x in text.splitlines()] for text in (old, new))
    if varies:
        ours, theirs = (sorted(FIGURES.sub("0", x) for x in lines) for lines in (ours, theirs))
    for a, b in zip(ours, theirs, strict=False):
        same = NUMBER.sub("0", a).split() == NUMBER.sub("0", b).split()
        pairs = zip(NUMBER.findall(a), NUMBER.findall(b), strict=False)
        if not same or any(not _near(x, y) for x, y in pairs):
            found.append(f"- {a}\n+ {b}")
    if len(ours) != len(theirs):
        found.append(f"{len(ours)} lines are {len(theirs)} now")
    return found


def _near(a: str, b: str) -> bool:
    x, y = (float(text.replace(",", "").replace("−", "-")) for text in (a, b))
    return abs(x - y) <= max(0.05, 0.1 * max(abs(x), abs(y)))


def check(page: str, calls: Sequence[Call]) -> list[str]:
    """Where the page is not what these calls print."""
    shown = dict.fromkeys(page.rstrip("\n").split("\n\n## ")[1:])
    titles = {text.partition("\n")[0]: f"## {text}" for text in shown}
    found = []
    if not page.startswith(HEAD) or [*titles] != [call.why for call in CALLS]:
        found.append("the page has another beginning or other calls: record it again")
    for call, text in zip(calls, record(calls), strict=True):
        differ = differences(titles.get(call.why, ""), text, varies=call.varies)
        found += [f"$ {call.line}", *differ] if differ else []
    return found


def main() -> int:
    """Record, or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--quick", action="store_true", help="leave out calls that take long")
    args = parser.parse_args()
    if args.check:
        calls = [call for call in CALLS if not (args.quick and call.long)]
        found = check(PAGE.read_text("utf-8"), calls)
        print("\n".join(found) or "docs/commands.md is what the commands print.")
        return 1 if found else 0
    FILES.mkdir(exist_ok=True)
    make_files(FILES)
    PAGE.write_text("\n\n".join([HEAD, *record()]) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
