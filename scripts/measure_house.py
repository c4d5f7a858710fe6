"""How big the house is, and how far apart its rooms: modules, lines, files that two jobs enter.

    python scripts/measure_house.py [SRC ...]

One column per folder of sources (default: ./src), so that two versions can be compared: make the
older one with `git worktree add /tmp/before COMMIT` and name /tmp/before/src first.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from pathlib import Path

#: Runs a job, then prints the files of SRC in which a function (not only an import) ran.
ENTERED = """
import os, sys, threading
source, seen = sys.argv[1] + os.sep, set()
def profile(frame, event, argument):
    code = frame.f_code
    function = code.co_flags & 1  # not the body of a module or a class
    if event == "call" and function and code.co_filename.startswith(source):
        seen.add(code.co_filename)
def job():
{job}
job()  # what is imported and built once, is
threading.setprofile(profile)
sys.setprofile(profile)
try:
    job()
finally:
    sys.setprofile(None)
print(*sorted(seen), sep="\\n")
"""
ROWS = """
    import numpy as np
    X = np.random.default_rng(0).standard_normal((60, 4))
    X[30:] += 0.5
    y = np.where(np.arange(60) < 30, X[:, 0] > 0, -1)
    domain = np.repeat([0, -1], 30)
"""
FIT = f"""{ROWS}
    from marda import MDAClassifier
    MDAClassifier("J12D").fit(X, y, sample_domain=domain)
"""
ADAPT = f"""{ROWS}
    names = [f"x{{k}}" for k in range(4)]
    for name, rows in (("s", X[:30]), ("t", X[30:])):
        lines = [",".join([*map(str, row), "yes" if row[0] > 0 else "no"]) for row in rows]
        if name == "t":
            lines = [line.rpartition(",")[0] for line in lines]
        header = ",".join(names + ["y"] * (name == "s"))
        open(name + ".csv", "w").write("\\n".join([header, *lines]))
    from marda.cli import main
    stdout, sys.stdout = sys.stdout, open(os.devnull, "w")
    out = f"{{len(os.listdir())}}.csv"  # a new file each time
    given = f"adapt --source s.csv --target t.csv --label y --method auto --out {{out}}"
    code = main(given.split())
    sys.stdout = stdout
    assert not code, code
"""
NOT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def code_lines(text: str) -> int:
    """Lines that hold something other than comments and docstrings."""
    documented = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NOT_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


def entered(source: Path, job: str) -> int:
    """Files of `source` in which a function ran during a job."""
    program = ENTERED.replace("{job}", job)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", program, str(source / "marda")],
            env=os.environ | {"PYTHONPATH": str(source)},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"the job failed in {source}:\n{done.stderr}")
    return len(done.stdout.split())


def measure(source: Path) -> dict[str, str]:
    """What is counted → its figure."""
    files = sorted((source / "marda").rglob("*.py"))
    texts = [file.read_text("utf-8") for file in files]
    short = [
        len(t.splitlines()) < 60 and "__" not in f.stem for f, t in zip(files, texts, strict=True)
    ]
    folders = Counter(file.parent.relative_to(source) for file in files)
    modules = Counter(file.stem for file in files if not file.stem.startswith("__"))
    classes = Counter(
        node.name
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    )
    return {
        "modules": str(len(files)),
        "packages": str(len(folders)),
        "lines of code": str(sum(map(code_lines, texts))),
        "modules under 60 lines (without __init__, __main__)": str(sum(short)),
        "module names in several folders": _several(modules),
        "class names in several modules": _several(classes),
        'files that MDAClassifier("J12D").fit enters': str(entered(source, FIT)),
        "files that marda adapt --method auto enters": str(entered(source, ADAPT)),
        **{f"modules in {folder}/": str(n) for folder, n in sorted(folders.items())},
    }


def _several(names: Counter[str]) -> str:
    found = sorted(name for name, n in names.items() if n > 1)
    return f"{len(found)}: {' '.join(found)}" if found else "0"


def main(argv: list[str] | None = None) -> None:
    """Print one column per folder of sources."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="*", type=Path, default=[Path("src")], metavar="SRC")
    sources = [source.resolve() for source in parser.parse_args(argv).sources]
    columns = [measure(source) for source in sources]
    print("| |", *(f"{source} |" for source in sources))
    print("| --- |" + " ---: |" * len(sources))
    for what in dict.fromkeys(name for column in columns for name in column):
        print(f"| {what} |", *(f"{column.get(what, '–')} |" for column in columns))


if __name__ == "__main__":
    main()
