"""Examples of the gallery: each compiles and says what it shows; the documentation runs them."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("plot_*.py"))
ALLOWED = {
    "marda",
    "matplotlib",
    "numpy",
    "onnxruntime",
    "pandas",
    "scipy",
    "sklearn",
} | sys.stdlib_module_names

pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason="no examples in this copy")


def test_there_are_enough():
    assert len(SCRIPTS) >= 12


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_compiles_and_says_what_it_shows(path):
    tree = ast.parse(path.read_text(encoding="utf-8"), path.name)
    title, line, *text = ast.get_docstring(tree).splitlines()
    assert set(line) == {"="}
    assert len(line) >= len(title)
    assert any(text)
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= ALLOWED  # the docs extra has nothing else
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = [call.attr for call in calls if isinstance(call, ast.Attribute)]
    assert "show" in names  # a picture
    assert {"set", "set_xlabel", "set_ylabel"} & set(names)  # with labelled axes
    assert not {"fetch", "download", "urlopen"} & set(names)  # no network


def test_the_documentation_runs_them_and_fails_with_them():
    conf = (EXAMPLES.parent / "docs" / "conf.py").read_text(encoding="utf-8")
    assert '"abort_on_example_error": True' in conf
    assert '"plot_gallery": "True"' in conf
