"""Printing tables and lists for a person: rich in a terminal, plain text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from marda.experiments import render
from marda.experiments.tables import Table

if TYPE_CHECKING:
    from rich.console import Console


def print_table(table: Table, stream: TextIO | None = None) -> None:
    """Print a table; in a pipe or without rich the marks are ``*better*`` and ``_above S1_``."""
    stream = sys.stdout if stream is None else stream
    console = _console(stream)
    if console is None:
        print(render.to_plain(table), file=stream)
        return
    from rich.table import Table as RichTable

    console.print(f"[bold]{table.title}[/bold]")
    for block in table.blocks:
        header, lines = render.grid(block, render.RICH)
        shown = RichTable(box=None, padding=(0, 1, 0, 0))
        for at, name in enumerate(header):
            shown.add_column(name, justify="left" if at == 0 else "right", no_wrap=True)
        for line in lines:
            shown.add_row(*line)
        console.print(f"\n[italic]{block.heading}[/italic]")
        console.print(shown)
    for note in table.notes:
        console.print(note, style="dim", soft_wrap=True)
    console.print()


def print_section(title: str, lines: Sequence[str], stream: TextIO | None = None) -> None:
    """Print a heading and its lines."""
    stream = sys.stdout if stream is None else stream
    console = _console(stream)
    if console is None:
        print("\n".join([title, *lines, ""]), file=stream)
        return
    console.print(f"[bold]{title}[/bold]")
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
    console.print()


def _console(stream: TextIO) -> Console | None:
    """Return a rich console if ``stream`` is a terminal and rich is installed."""
    if not stream.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=stream, highlight=False)
