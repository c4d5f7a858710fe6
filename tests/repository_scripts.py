"""Programs of the folder scripts, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


def script(name: str) -> ModuleType:
    """A script of the repository as a module."""
    if not (SCRIPTS / name).exists():
        pytest.skip("no scripts in this copy")
    spec = importlib.util.spec_from_file_location(f"scripts_{Path(name).stem}", SCRIPTS / name)
    module = importlib.util.module_from_spec(spec)
    if str(SCRIPTS) not in sys.path:
        sys.path.append(str(SCRIPTS))  # scripts import what they share
    sys.modules[spec.name] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module
