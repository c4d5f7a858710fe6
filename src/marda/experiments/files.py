"""Writing result files."""

from __future__ import annotations

from pathlib import Path

from marda.io.atomic import replacing


def write_text(path: Path, text: str) -> Path:
    """Write to a temporary name, then rename: a reader never sees half a file."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
    return path
