"""Examples in docstrings and in the README run as written."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest

import marda
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
