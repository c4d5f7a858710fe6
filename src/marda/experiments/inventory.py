"""What ``marda data`` tells about data sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from marda import datasets
from marda.experiments.render import align

Lines = tuple[list[str], bool]
"""Text and whether all is well."""


def list_lines(names: Sequence[str], folder: Path | None) -> Lines:
    """Every data set, and which of them are there."""
    lines = [["data set", "there", "files"]]
    for name in names or datasets.names():
        location = datasets.locate(name, folder)
        there = "yes" if location.complete else "in part" if location.files else "no"
        lines.append([name, there, ", ".join(file.name for file in location.files.values())])
    return align(lines, left=True), True


def path_lines(names: Sequence[str], folder: Path | None) -> Lines:
    """Where each data set was found, or where it was looked for."""
    locations = [datasets.locate(name, folder) for name in names or datasets.names()]
    if names:
        for location in locations:
            if location.layout is None:
                raise location.missing()
    return [str(location) for location in locations], True


def check_lines(names: Sequence[str], folder: Path | None) -> Lines:
    """Checksum of every file; named data sets must be there, others are passed over."""
    found = names or [n for n in datasets.names() if datasets.locate(n, folder).files]
    files = {check.file: check for name in found for check in datasets.check(name, folder)}
    words = {True: "ok", False: "differs", None: "unknown"}
    lines = [[words[c.ok], c.sha256[:16], str(c.file)] for c in files.values()]
    return align(lines, left=True), all(c.ok is not False for c in files.values())
