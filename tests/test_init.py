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
    """Nor do the names of data sets, and plans of benchmarks, wait for scikit-learn."""
    code = """if True:
        import sys, marda
        print(marda.datasets.names())
        import marda.benchmarks.plan, marda.benchmarks.runner, marda.benchmarks.store
        print({"sklearn", "pandas", "scipy.stats"} & set(sys.modules))
    """
    names, loaded = fresh("-c", code).splitlines()
    assert "sentiment-snippets" in names
    assert loaded == "set()"


HEAVY = {"numpy", "scipy", "sklearn", "pandas", "pyarrow", "rich", "vl_convert", "marda.datasets"}


def test_import_and_help_load_nothing_heavy():
    code = f"""if True:
        import sys
        import marda
        assert not {HEAVY} & set(sys.modules)
        from marda import cli
        for command in ("", "adapt", "check", "compare", "predict", "reproduce", "moments"):
            assert cli.main([*command.split(), "--help"]) == 0
        print("loaded:", {HEAVY} & set(sys.modules))
    """
    assert fresh("-c", code).endswith("loaded: set()\n")


def test_noise_path_is_a_function_whatever_is_imported_first():
    code = """if True:
        import sys
        for first in ("marda", "marda.noise_paths", "marda.noise_paths.path", "marda.selection"):
            for name in [name for name in sys.modules if name.split(".")[0] == "marda"]:
                del sys.modules[name]
            __import__(first)
            import marda
            marda.noise_path
            import marda.noise_paths.path, marda.selection
            from marda import noise_path
            print(first, noise_path.__name__, len(marda.noise_path([[1.0]])))
    """
    lines = fresh("-c", code).splitlines()
    assert len(lines) == 4
    assert all(line.endswith(" noise_path 19") for line in lines), lines


def test_runs_as_a_module():
    assert fresh("-m", "marda", "--version").startswith("marda ")
    assert "commands:" in fresh("-m", "marda", "--help")


def test_names_are_listed_and_others_refused():
    assert set(marda.__all__) <= set(dir(marda))
    with pytest.raises(AttributeError, match="has no attribute 'data_sets'"):
        _ = marda.data_sets
