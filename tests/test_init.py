"""`import marda` is light, and everything public is reached from it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import marda


def fresh(*arguments: str) -> str:
    """What a new interpreter prints."""
    paths = os.pathsep.join(p for p in sys.path if p)
    run = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout


def test_datasets_needs_no_import_of_its_own():
    assert "sentiment-snippets" in fresh("-c", "import marda; print(marda.datasets.names())")


HEAVY = {"numpy", "scipy", "sklearn", "pandas", "pyarrow", "rich", "altair", "marda.datasets"}


def test_import_loads_nothing_heavy():
    assert fresh("-c", f"import sys, marda; print({HEAVY} & set(sys.modules))").strip() == "set()"


def test_help_loads_nothing_heavy():
    code = f"""if True:
        import sys
        from marda import cli
        for command in ("", "adapt", "check", "compare", "predict", "reproduce", "moments"):
            assert cli.main([*command.split(), "--help"]) == 0
        print("loaded:", {HEAVY} & set(sys.modules))
    """
    assert fresh("-c", code).endswith("loaded: set()\n")


@pytest.mark.parametrize(
    "first", ["marda", "marda.noise_paths", "marda.noise_paths.path", "marda.selection"]
)
def test_noise_path_is_a_function_whatever_is_imported_first(first):
    code = (
        f"import {first}, marda; marda.noise_path; import marda.noise_paths.path, marda.selection"
    )
    code += (
        "; from marda import noise_path; print(noise_path.__name__, len(marda.noise_path([[1.0]])))"
    )
    assert fresh("-c", code).strip() == "noise_path 19"


def test_runs_as_a_module():
    assert fresh("-m", "marda", "--version").startswith("marda ")
    assert "commands:" in fresh("-m", "marda", "--help")


def test_names_are_listed_and_others_refused():
    assert set(marda.__all__) <= set(dir(marda))
    with pytest.raises(AttributeError, match="has no attribute 'data_sets'"):
        _ = marda.data_sets
