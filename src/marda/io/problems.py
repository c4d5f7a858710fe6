"""What is wrong with files, all of it in one message, each with the option that solves it."""

from __future__ import annotations

import csv
import difflib
import io
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = [
    "InputError",
    "InputProblem",
    "Problems",
    "as_keywords",
    "did_you_mean",
    "joined_names",
    "name_key",
    "option",
    "refuse",
    "split_names",
]

MOST_SHOWN = 12
#: Options that take names, separated by commas.
LISTS = frozenset({"--drop", "--keep", "--na", "--text"})


class InputError(ValueError):
    """A file, a column or an option that cannot be used; the message says what to do."""


@dataclass(frozen=True)
class InputProblem:
    """One thing that keeps files from being used.

    Attributes
    ----------
    what : str
        A sentence without its full stop, which says what to do.
    options : tuple of (str, str)
        Options and their values which, taken together, solve it; empty: only another file does.
        Where only the reader knows, all values stand there with a bar between them.
    column : str or None
        The column that it is about.
    """

    what: str
    options: tuple[tuple[str, str], ...] = ()
    column: str | None = None


class Problems(InputError):
    """All that was found.

    Attributes
    ----------
    problems : tuple of InputProblem
        In the order of the columns.
    options : tuple of str
        Arguments that solve every problem that options can solve; lists are joined.
    """

    def __init__(self, problems: Sequence[InputProblem]):
        self.problems = tuple(problems)
        self.options = _merged(problems)
        if len(problems) == 1:
            super().__init__(f"{problems[0].what}.")
            return
        shown = [f"({k}) {p.what}" for k, p in enumerate(problems[:MOST_SHOWN], 1)]
        if len(problems) > MOST_SHOWN:
            shown.append(f"and {len(problems) - MOST_SHOWN} more")
        text = f"{len(problems)} things to settle: {'; '.join(shown)}."
        if self.options:
            text += f" In one go: {shlex.join(self.options)}"
        super().__init__(text)


def _merged(problems: Iterable[InputProblem]) -> tuple[str, ...]:
    merged: dict[str, list[str]] = {}
    for problem in problems:
        for flag, value in problem.options:
            values = merged.setdefault(flag, [])
            if value not in values:
                values.append(value)
    return tuple(
        word
        for flag, values in merged.items()
        for word in (flag, joined_names(values) if flag in LISTS else values[0])
    )


def refuse(problems: Sequence[InputProblem]) -> None:
    """Raise all of them at once, if there are any."""
    if problems:
        raise Problems(problems)


# Names of columns --------------------------------------------------------------------------------


def split_names(text: str) -> list[str]:
    """Names separated by commas; a name that holds a comma stands in double quotes."""
    try:
        names = next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error:
        raise InputError(
            f"{text!r} is no list of columns: separate names by commas, and put a name that holds "
            "a comma in double quotes, as in 'a,\"b, c\"'."
        ) from None
    return [name.strip() for name in names if name.strip()]


def joined_names(names: Iterable[str]) -> str:
    """The inverse of `split_names`."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(names)
    return out.getvalue()


def option(flag: str, name: str) -> str:
    """An option and a column as a person types them."""
    return f"{flag} '{joined_names([name])}'"


def name_key(name: str) -> str:
    """The same for names that differ in case, spaces, hyphens and underscores only."""
    return re.sub(r"[\s_\-.]+", "", name).casefold()


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """' (did you mean …?)' where a name is close to one that is there; else nothing."""
    keys = {name_key(other): other for other in known}
    close = difflib.get_close_matches(name_key(name), list(keys), n=1, cutoff=0.7)
    return f" (did you mean {keys[close[0]]!r}?)" if close else ""


# The same sentences for Python --------------------------------------------------------------------

_VALUES = {
    "missing": r"(?:error|impute)",
    "scale": r"(?:none|standard)",
    "decimal": r"(?:point|comma)",
    "dates": r"(?:day-first|month-first)",
    "method": r"(?:auto|(?:BL|MCF|S1|J12)[MCD]*)",
    "na": r"[^\s'.:;,]+",
}
_GIVEN = re.compile(
    r"--(?P<flag>[a-z]+)(?: '(?P<quoted>.*?)'(?=[\s:;,.)]|$)| (?P<bare>"
    + "|".join(rf"(?<=--{flag} ){values}" for flag, values in _VALUES.items())
    + r"))?"
)


#: Commands, and what a person does in Python in their place.
_COMMANDS = {
    "run marda compare": "compare methods",
    "Run marda compare": "Compare methods",
    "marda label names": "to_label names",
    "with --json": "in .columns",
}


def as_keywords(text: str) -> str:
    """A message with its options as the keywords of a function: ``drop=['a']`` for ``--drop a``.

    Commands that it names become what a person does in Python.
    """
    text, mark, together = text.partition(" In one go: ")
    for command, done in _COMMANDS.items():
        text = text.replace(command, done)
    text = _GIVEN.sub(_keyword, text)
    # Several in a row are separated as arguments are.
    text = re.sub(r"(\w+=(?:'[^']*'|\[[^]]*\])) (?=\w+=)", r"\1, ", text)
    words = shlex.split(together)
    pairs = zip(words[::2], words[1::2], strict=False)
    return text + mark + ", ".join(_assignment(flag[2:], value) for flag, value in pairs)


def _keyword(found: re.Match[str]) -> str:
    value = found["bare"] if found["quoted"] is None else found["quoted"]
    return found["flag"] if value is None else _assignment(found["flag"], value)


def _assignment(name: str, value: str) -> str:
    if f"--{name}" in LISTS:
        return f"{name}={split_names(value)!r}"
    return f"{name}={' or '.join(repr(one) for one in value.split('|'))}"
