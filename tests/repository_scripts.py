"""Programs of the folder scripts, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


def module_of(path: Path) -> ModuleType:
    """A file as a module."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def script(name: str) -> ModuleType:
    """A script of the repository as a module."""
    if not (SCRIPTS / name).exists():
        pytest.skip("no scripts in this copy")
    if str(SCRIPTS) not in sys.path:
        sys.path.append(str(SCRIPTS))  # scripts import what they share
    return module_of(SCRIPTS / name)
