"""Examples in docstrings and in the README run as written."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn

import marda
from marda.cli import parser
from problems import make_case
from repository_scripts import script

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"
pages = pytest.mark.skipif(not DOCS.exists(), reason="no pages in this copy")


@pytest.mark.parametrize(
    "name", ["MDA", "MDAClassifier", "MDAClassifierCV", "adapt", "check", "pack"]
)
def test_docstring_examples(name):
    finder = doctest.DocTestFinder(recurse=False)
    found = finder.find(getattr(marda, name), name, globs=dict(vars(marda)))
    assert sum(len(test.examples) for test in found) > 0
    runner = doctest.DocTestRunner()
    for test in found:
        runner.run(test)
    assert runner.failures == 0


@pytest.mark.parametrize("name", ["MDA", "MDAClassifier", "MDAClassifierCV", "DSCM"])
def test_every_parameter_is_described(name):
    cls = getattr(marda, name)
    text = inspect.getdoc(cls)  # Python 3.13 keeps docstrings without their indentation
    assert "parameters}" not in text  # the shared text was filled in
    for parameter in cls().get_params():
        assert re.search(rf"^[\w, ]*\b{parameter}\b[\w, ]* :", text, re.MULTILINE), parameter


def fitted_attributes(model: object) -> set[str]:
    return {name for name in dir(model) if re.fullmatch(r"[a-zA-Z]\w*(?<!_)_|[A-Z]_", name)}


@pytest.mark.parametrize(
    ("name", "several"),
    [
        ("MDA", [{}]),
        ("MDAClassifier", [{}, {"classifier": "kernel", "refine": "auto", "center": True}]),
        ("MDAClassifierCV", [{}, {"candidates": {"method": ["BL", "S1"]}}]),
        ("DSCM", [{}]),
    ],
)
@pytest.mark.usefixtures("few_draws")
def test_fitted_attributes_are_those_that_are_described(name, several):
    rows = make_case("US", seed=5, d=4, n_source=60, n_target=50)
    X = pd.DataFrame(rows.X, columns=list("abcd"))
    found = set()
    for parameters in several:
        model = getattr(marda, name)(**parameters)
        found |= fitted_attributes(model.fit(X, rows.codes, sample_domain=rows.domain))
    text = inspect.getdoc(type(model)).split("Attributes\n----------\n")[1].split("\n\n")[0]
    lines = [line for line in text.splitlines() if not line.startswith(" ")]
    assert found == {name for line in lines for name in line.split(" : ")[0].split(", ")}


@pytest.mark.parametrize("name", marda.__all__)
def test_public_names_exist_and_are_described(name):
    thing = getattr(marda, name)
    assert name == "__version__" or thing.__doc__


def listed(module: str) -> set[str]:
    """Names of a module that docs/reference/index.md lists."""
    text = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    blocks = re.findall(r"currentmodule:: (\S+)\n\n.*?:nosignatures:\n\n(.*?)```", text, re.DOTALL)
    return {name for home, names in blocks if home == module for name in names.split()}


@pages
def test_every_public_name_has_a_page():
    assert listed("marda") == set(marda.__all__) - {"__version__", "datasets"}
    for name in ("marda.noise", "marda.selection", "marda.datasets"):
        module = import_module(name)
        names = listed(name)
        assert names <= set(module.__all__)
        assert all(getattr(module, n).__doc__ for n in names)


def described(text: str) -> dict[str, str]:
    """Parameters of a docstring, each with what stands behind the colon."""
    found = re.search(r"^Parameters\n-+\n(.*?)(?:\n\n\S|\Z)", text, re.DOTALL | re.MULTILINE)
    lines = [line for line in found[1].splitlines() if line[:1].strip()] if found else []
    pairs = [line.partition(" : ")[::2] for line in lines]
    return {name.strip("*"): kind for names, kind in pairs for name in names.split(", ")}


PUBLIC = [
    (home, name)
    for home in ("marda", "marda.noise", "marda.selection", "marda.datasets")
    for name in sorted(listed(home) if DOCS.exists() else ())
]


@pages
@pytest.mark.parametrize(("home", "name"), PUBLIC, ids=lambda text: text)
def test_described_parameters_are_those_of_the_signature(home, name):
    """Of every public function, class and method that describes some: all, with their defaults."""
    thing = getattr(import_module(home), name)
    for one in [thing] + [m for n, m in inspect.getmembers(thing, callable) if n[0] != "_"]:
        text, module = inspect.getdoc(one) or "", getattr(one, "__module__", None) or ""
        if not module.startswith("marda") or not (told := described(text)):
            continue
        parameters = dict(inspect.signature(one).parameters)
        parameters.pop("self", None)
        assert set(told) == set(parameters), one
        for parameter, kind in told.items():
            shown = re.search(r"default=([^,]+)$", kind)  # several names have several
            if shown and re.match(r"[\d\"'-]|None|True|False", shown[1]):
                assert ast.literal_eval(shown[1]) == parameters[parameter].default, (one, parameter)


@pages
def test_python_of_the_front_page_is_that_of_the_readme():
    blocks = [
        re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
        for path in (README, DOCS / "index.md")
    ]
    assert blocks[0] == blocks[1]


@pytest.mark.skipif(not README.exists(), reason="no README in this copy")
def test_the_readme_example_runs_as_written_and_prints_its_figures(tmp_path, monkeypatch, capsys):
    code = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)[1]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(README), "exec"), {"__name__": "__main__"})
    printed = [line.split()[-1] for line in capsys.readouterr().out.splitlines()]
    for shown, value in zip(re.findall(r"# (0\.\d+)", code), printed, strict=True):
        assert abs(float(shown) - float(value)) <= 0.01  # another BLAS may move a row or two


@pages
def test_figures_of_the_readme_are_those_of_the_benchmarks():
    figures = script("make_figures.py")
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    means = figures.means(page)
    assert len(means) == 5
    assert figures.means(README.read_text(encoding="utf-8")) == means


@pages
def test_files_and_names_of_the_architecture_exist():
    """Files by their ends, folders, and names within the sources, a file's own where it is told."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    files = {f.relative_to(ROOT).as_posix(): f for f in ROOT.glob("src/marda/**/*.*")}
    words = {
        path: set(re.findall(r"\w+", file.read_text(encoding="utf-8")))
        for path, file in files.items()
        if file.suffix == ".py"
    }
    known = {"S1B"}.union(*words.values())  # a method that a recipe makes
    lost = []
    for told in re.findall(r"`([^`]+)`", prose):
        if re.fullmatch(r"[\w/]+\.(py|css)", told):
            here = any(path.endswith(f"/{told}") for path in files) or (ROOT / told).exists()
        elif re.fullmatch(r"[\w/]+/", told):
            here = any(f"/{told}" in path for path in files) or (ROOT / told).is_dir()
        elif "/" in told and (name := re.fullmatch(r"([\w/]+)\.(\w+)", told)):
            here = name[2] in words.get(f"src/marda/{name[1]}.py", ())
        elif re.fullmatch(r"[A-Za-z_][\w.]*", told) and "NAME" not in told:
            here = set(told.strip(".").split(".")) <= known
        else:
            continue
        if not here:
            lost.append(told)
    assert not lost


@pages
@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda p: p.stem)
def test_python_of_the_pages_compiles_and_imports_what_exists(path):
    for block in re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
        tree = ast.parse(block, str(path))
        imports = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
        ours = [n for n in imports if not re.search("skada|torch", ast.unparse(n))]
        exec(compile(ast.Module(ours, []), str(path), "exec"), {})


def made_rows(label: str) -> dict[str, object]:
    """What the guides take as given: rows of two domains, sentences; CSV files beside."""
    rng = np.random.default_rng(0)
    ys, yt = rng.integers(2, size=90), rng.integers(2, size=80)
    Xs, Xt = (rng.normal(2 * y[:, None], 1, (len(y), 4)) for y in (ys, yt))
    few = np.where(np.arange(80) < 6, yt, -1)
    X, y, sample_domain = marda.pack(Xs, ys, Xt)
    words = ["good", "bad", "film", "love", "the", "a", "nice", "awful", "plot", "great"]
    reviews, tweets = ([" ".join(rng.choice(words, 8)) for _ in range(90)] for _ in range(2))
    for name, n in (("old", 90), ("new", 80), ("more", 9)):
        table = pd.DataFrame(rng.normal(size=(n, 2)), columns=["spent", "visits"])
        table["customer"] = [f"{name}-{i}" for i in range(n)]
        if name == "old":
            table[label] = np.where(table["spent"] > 0, "yes", "no")
        table.to_csv(f"{name}.csv", index=False)
    return {
        "marda": marda, "MDAClassifier": marda.MDAClassifier, "clf": marda.MDAClassifier("S1"),
        "MDAClassifierCV": marda.MDAClassifierCV, "X": X, "y": y, "sample_domain": sample_domain,
        "Xs": Xs, "ys": ys, "Xt": Xt, "yt": few, "Xa": Xs[:40], "ya": ys[:40], "Xb": Xs[40:],
        "yb": ys[40:], "Xt_labelled": Xt[:9], "yt_labelled": yt[:9], "Fs": Xs, "Ft": Xt,
        "reviews": reviews, "tweets": tweets, "labels": ["good" in text for text in reviews],
    }  # fmt: skip


GUIDES = sorted(p for p in (DOCS / "learn").glob("*.md") if "```python" in p.read_text("utf-8"))


@pages
@pytest.mark.slow
@pytest.mark.parametrize("path", GUIDES, ids=lambda p: p.stem)
def test_python_of_the_guides_runs(path, tmp_path, monkeypatch):
    """Block by block on small rows; those of Spark and torch have tests of their own."""
    monkeypatch.chdir(tmp_path)
    text = path.read_text("utf-8")
    names = made_rows("churn" if 'label="churn"' in text else "y")
    with sklearn.config_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            if not re.search("spark|torch", block):
                exec(compile(block, str(path), "exec"), names)


@pages
@pytest.mark.parametrize(
    "path", [README, ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))], ids=lambda p: p.stem
)
def test_options_that_pages_name_exist(path):
    """In "marda COMMAND --option" of a line or of prose, for that very command."""
    text = re.sub(r"\\\n\s*", " ", path.read_text(encoding="utf-8"))
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    calls, commands = re.findall(r"`marda ([a-z][^`]*)`", prose), parser().commands
    for block in re.findall(r"```[^\n]*\n(.*?)```", text, re.DOTALL):
        calls += re.findall(r"^(?:\$ )?marda ([a-z]+(?: .*)?)$", block, re.MULTILINE)
    for call in calls:
        name, *words = call.split()
        if (command := commands.get(name)) is None:
            continue  # prose that wraps: "marda predicts …"
        if command.commands and words:
            command = command.commands[words[0]]
        known = {flag for action in command.arguments for flag in action.option_strings}
        told = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", call))
        assert told <= {*known, "--help"}, call


@pages
@pytest.mark.parametrize(
    "path",
    [
        README,
        *(DOCS / f"{name}.md" for name in ("index", "method", "comparison")),
        *sorted((DOCS / "learn").glob("*.md")),
    ],
    ids=lambda p: p.stem,
)
def test_guides_tell_what_is(path):
    """No commits, and nothing of how it was: that is the changelog's and the laboratory's."""
    text = path.read_text(encoding="utf-8")
    history = r"\b(?=\w*\d)[0-9a-f]{7,12}\b|used to be|run again|earlier version|on record by older"
    assert not re.findall(history, re.sub(r"sha256|[\d,_]{7,}|\d{7,}", "", text))
