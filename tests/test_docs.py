"""Examples in docstrings and in the README run as written."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path

import pytest

import marda

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.parametrize("name", ["MDA", "MDAClassifier", "MDAClassifierCV", "pack"])
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


@pytest.mark.parametrize("name", marda.__all__)
def test_public_names_exist_and_are_described(name):
    thing = getattr(marda, name)
    assert name == "__version__" or thing.__doc__


@pytest.mark.skipif(not README.exists(), reason="no README in this copy")
def test_readme_example_runs_as_written(tmp_path, monkeypatch, capsys):
    text = README.read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert code, "README.md has no ```python block"
    monkeypatch.chdir(tmp_path)
    exec(compile(code[1], str(README), "exec"), {"__name__": "__main__"})
    assert "marda" in code[1]
