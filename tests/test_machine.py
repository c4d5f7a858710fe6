"""Where a figure was made."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from marda import _machine
from marda._machine import available_cores, git_commit, machine_facts, versions


def test_versions_of_what_is_there_and_what_is_not():
    found = versions("no-such-package")
    assert found["numpy"] == np.__version__
    assert found["no-such-package"] == "not installed"
    assert "no-such-package" not in versions()


def test_facts_are_json_and_name_no_host():
    facts = machine_facts()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["cores"] >= available_cores() >= 1
    assert "python" not in facts["versions"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", facts["date"])


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository of its own that holds the module."""
    file = tmp_path / "_machine.py"
    file.write_text("pass\n")
    monkeypatch.setattr(_machine, "__file__", str(file))
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]

    def git(*args):
        subprocess.run(["git", "-C", tmp_path, *identity, *args], check=True, capture_output=True)

    git("init")
    git_commit.cache_clear()
    yield file, git
    git_commit.cache_clear()


def commit_now():
    git_commit.cache_clear()
    return git_commit()


def test_a_commit_is_that_of_a_checkout_and_marked_if_altered(checkout):
    file, git = checkout
    assert commit_now() == ""  # no commit yet
    Path(file.parent / "other").write_text("x")
    git("add", "other")
    git("commit", "-m", "x")
    assert commit_now() == ""  # someone else's repository
    git("add", file.name)
    git("commit", "-m", "x")
    assert re.fullmatch(r"[0-9a-f]{12}", commit_now())
    file.write_text("changed\n")
    assert re.fullmatch(r"[0-9a-f]{12}\+", commit_now())
