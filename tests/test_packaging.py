"""Wheel and sdist build and hold what they should; the wheel works in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import marda

ROOT = Path(__file__).parents[1]
PROJECT = ROOT / "pyproject.toml"

pytestmark = pytest.mark.skipif(not PROJECT.exists(), reason="no pyproject.toml in this copy")


def run(*command: str | Path, **env: str) -> str:
    """Output of a command that must succeed, without the paths of this process."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PIP_"))}
    done = subprocess.run(
        [str(part) for part in command],
        env={**clean, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_version():
    version = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["version"]
    assert marda.__version__ == version
    citation = ROOT / "CITATION.cff"
    if citation.exists():
        assert f"\nversion: {version}\n" in citation.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Wheel and sdist, built without the network by the hatchling that is installed."""
    folder = tmp_path_factory.mktemp("dist")
    for target in ("wheel", "sdist"):
        script = (
            "import os, sys; from hatchling.build import build_wheel, build_sdist; "
            f"os.chdir({str(ROOT)!r}); build_{target}({str(folder)!r})"
        )
        run(sys.executable, "-c", script)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


@pytest.mark.slow
def test_contents(built):
    wheel, sdist = built
    with zipfile.ZipFile(wheel) as file:
        inside = file.namelist()
    assert all(n.startswith(("marda/", f"marda-{marda.__version__}.dist-info/")) for n in inside)
    for needed in ("marda/py.typed", "marda/__main__.py", "marda/datasets/__init__.py"):
        assert needed in inside
    assert not [n for n in inside if n.endswith(".pyc")]
    with tarfile.open(sdist) as file:
        names = {n.partition("/")[2] for n in file.getnames()}
    for needed in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff"):
        assert needed in names
    for folder in ("src/marda/", "tests/", "docs/", "examples/"):
        assert any(n.startswith(folder) for n in names)
    assert not [n for n in names if n.startswith(("docs/_build", "docs/auto_examples"))]


@pytest.mark.slow
@pytest.mark.parametrize("which", ["wheel", "sdist"])
def test_installs_and_runs(built, which, tmp_path):
    """In an empty environment that sees the installed dependencies by path."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    package = built[which == "sdist"]
    shared = sysconfig.get_path("purelib")
    # An installed marda must not be seen: the dependencies are linked one by one.
    linked = tmp_path / "dependencies"
    linked.mkdir()
    for path in Path(shared).iterdir():
        if "marda" not in path.name:
            (linked / path.name).symlink_to(path)
    paths = {"PYTHONPATH": str(linked)}
    run(
        *(python, "-m", "pip", "install", "--no-index", "--no-deps", "--no-build-isolation"),
        *("--disable-pip-version-check", package),
        **paths,
    )
    version = run(python, "-m", "marda", "--version", **paths)
    assert version.strip() == f"marda {marda.__version__}"
    script = (
        "import marda, pathlib; print(pathlib.Path(marda.__file__).parents[0]); "
        "print(marda.datasets.load('sentiment-snippets')['films'].X.shape[0])"
    )
    where, rows = run(python, "-c", script, **paths).split()
    assert str(tmp_path) in where
    assert rows == "10072"
