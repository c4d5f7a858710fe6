"""What the commands share: parsers, options, printing, and which files may be replaced."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from marda._progress import Progress

#: Help of --label.
LABEL = "column of labels (empty: not known)"
FORMATS = ("csv", "excel", "json", "parquet", "arrow", "svmlight", "npz", "mat")


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Options and their help on one line each, so that a command's help fits a screen."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=96)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        shown: str | None = getattr(action, "shown", None)
        return super()._format_action_invocation(action) if shown is None else shown


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, and which knows its arguments and its commands."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.arguments: list[argparse.Action] = []
        self.commands: dict[str, Parser] = {}
        super().__init__(*args, **options)

    def error(self, message: str) -> NoReturn:
        """End with one line."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def add_argument(self, *args: Any, **options: Any) -> argparse.Action:
        """Add one, and remember it."""
        action = super().add_argument(*args, **options)
        self.arguments.append(action)
        return action

    def add_subparsers(self, **options: Any) -> Any:
        """Add commands, and remember them."""
        action = super().add_subparsers(**options, parser_class=Parser)
        self.commands = action.choices
        return action

    def add_common_options(self) -> None:
        """What every command knows: --quiet, --progress, and --force where it writes files."""
        for parser in self.commands.values():
            parser.add_common_options()
        self.set_defaults(written=[], quiet=False, progress=False, force=False)
        if self.commands:
            return
        written = [a for a in self.arguments if a.type in (output_file, output_folder)]
        self.set_defaults(written=[(a.dest, a.option_strings[-1], a.default) for a in written])
        known = {flag: a for a in self.arguments for flag in a.option_strings}
        if written and "--force" not in known:
            force = self.add_argument("--force", action="store_true", help="replace files")
            if "--json" in known and known["--json"].nargs == 0:
                joint(known["--json"], force, text="print the result as JSON; replace files")
        joint(
            self.add_argument("--quiet", action="store_true"),
            self.add_argument("--progress", action="store_true"),
            text="only results and errors; progress where no terminal is, too",
        )


def output_file(text: str) -> Path:
    """The name of a file that a command writes: one that is there is replaced by --force only."""
    return Path(text)


def output_folder(text: str) -> Path:
    """The same for a folder: what is in it is replaced by --force only."""
    return Path(text)


def refuse_existing(args: argparse.Namespace) -> None:
    """Refuse to replace files, unless --force is given or the command itself chose their names."""
    written = {dest: flag for dest, flag, _ in args.written}
    there = [
        (flag, path)
        for dest, flag, default in args.written
        if (path := vars(args)[dest]) not in (None, default, Path("-")) and _is_taken(path, dest)
    ]
    if not there:
        return
    from marda.io import InputError

    read = [value for dest, value in vars(args).items() if dest not in {*written, "words"}]
    lists = (value if isinstance(value, list) else [value] for value in read)
    inputs = {Path(v).resolve() for values in lists for v in values if isinstance(v, str | Path)}
    for flag, path in there:
        if path.resolve() in inputs:
            raise InputError(f"{flag} {path} would replace an input file.")
    if not args.force:
        told = " and ".join(f"{flag} {path}" for flag, path in there)
        many = "exists: add --force to replace it" if len(there) == 1 else "exist: add --force"
        raise InputError(f"{told} {many}.")


def _is_taken(path: Path, dest: str) -> bool:
    if dest == "plots":
        return path.is_dir() and any(path.iterdir())
    return path.is_file()


def progress_of(args: argparse.Namespace, **options: Any) -> Progress:
    """The display that was asked for: on a terminal, everywhere, or nowhere."""
    from marda._progress import Progress

    return Progress(show=progress_choice(args), **options)


def progress_choice(args: argparse.Namespace) -> bool | None:
    """Whether progress is shown; None: on a terminal."""
    if args.quiet:
        return False
    return True if args.progress else None


def add_command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], int],
    text: str,
    *,
    usage: str,
    example: str,
    of: str = "",
) -> Parser:
    """Add a command whose help ends with an example that works as pasted; `of`: what it is in."""
    parser: Parser = commands.add_parser(
        name,
        help=text,
        usage=f"marda {of}{name} {usage}",
        description=text[0].upper() + text[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=Formatter,
        allow_abbrev=False,
        add_help=False,
    )
    # Whoever reads the help knows how to get it: its line is better used for an option.
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    parser.set_defaults(run=run, command=f"{of}{name}")
    return parser


def joint(*actions: argparse.Action, text: str) -> None:
    """Show several options, each of one value or none, on one line of the help."""
    for action in actions:
        action.help = argparse.SUPPRESS
    names = [f"{a.option_strings[0]} {a.metavar or ''}".strip() for a in actions]
    actions[0].help = text
    vars(actions[0])["shown"] = ", ".join(names)


class StoreOnce(argparse.Action):
    """Store one value; a second one is refused, where argparse would drop the first."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Take the value."""
        before = getattr(namespace, self.dest, None)
        if before is not None:
            parser.error(f"{option_string} takes one file, got {before} and {values}")
        setattr(namespace, self.dest, values)


def positive(text: str) -> int:
    """A whole number of at least 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return value


def add_file_options(
    parser: argparse.ArgumentParser,
    *,
    required: bool = True,
    label: bool = True,
    missing: str = "error",
) -> argparse.Action:
    """Source, target, and how to read them; `missing` is what is done about missing values.

    Returns the option of the label, which may share its line of the help.
    """
    add = parser.add_argument
    joint(
        add("--source", type=Path, action="append", required=required, metavar="S"),
        add("--target", type=Path, action=StoreOnce, required=required, metavar="T"),
        text="labelled rows, repeated for several sources; rows to classify",
    )
    labels = add("--label", required=required and label, metavar="COL", help=LABEL)
    add_reading_options(parser, na=True)
    joint(
        add("--id", metavar="COL"),
        add("--keep", type=names, action="extend", default=[], metavar="COLS"),
        text="carried through; used although they look like ids or leaks",
    )
    joint(
        add("--text", type=names, action="extend", default=[], metavar="COLS"),
        add("--drop", type=names, action="extend", default=[], metavar="COLS"),
        text="for tf-idf; left out. COLS: a,b,c or 'a,\"b, c\"' (with a comma)",
    )
    joint(
        add("--missing", default=missing, choices=("error", "impute"), metavar="M"),
        add("--scale", default="none", choices=("none", "standard"), metavar="S"),
        text=f"error or impute (default {missing}); none (default) or standard",
    )
    return labels


def add_model_and_rows(parser: argparse.ArgumentParser, rows: str) -> None:
    """A saved model, and the rows it is used on."""
    add = parser.add_argument
    add(
        "--model",
        type=Path,
        required=True,
        metavar="F",
        help="read the model that marda adapt --model F wrote",
    )
    add("--input", type=Path, action=StoreOnce, required=True, metavar="X", help=rows)


def add_reading_options(parser: argparse.ArgumentParser, *, na: bool = False) -> None:
    """How files are read; a list names one value per file, sources first."""
    add = parser.add_argument
    joint(
        add("--format", choices=FORMATS, metavar="F"),
        add("--encoding", type=names, default=[], metavar="E"),
        text="csv excel json parquet arrow svmlight npz mat; utf-8 cp1252 …",
    )
    joint(
        add("--sheet", type=names, default=[], metavar="N"),
        add("--decimal", type=names, default=[], metavar="D"),
        text="sheet of a workbook; point or comma (default: all found out)",
    )
    dates = add("--dates", type=names, default=[], metavar="D", help="day-first or month-first")
    if na:
        joint(
            dates,
            add("--na", type=names, action="extend", default=[], metavar="WORDS"),
            text="day-first or month-first; words that mean no value, as a,b",
        )


def names(text: str) -> list[str]:
    """Names separated by commas; one that holds a comma stands in double quotes."""
    from marda.io.table import InputError, split_names

    try:
        found = split_names(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not found:
        raise argparse.ArgumentTypeError("expected at least one name")
    return found


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Parameters of the model."""
    add = parser.add_argument
    joint(
        add("--noise", type=float, metavar="P"),
        add("--classifier", choices=("ridge", "kernel", "nn", "dscm"), metavar="C"),
        text="dropout (0.5); ridge (default), kernel, nn, dscm; auto: its own",
    )


def read_options(args: argparse.Namespace) -> Any:
    """`ReadOptions` of the arguments, as far as the command has them."""
    from marda.adaptation import ReadOptions

    given: dict[str, Any] = {"label": ""}
    for one in fields(ReadOptions):
        if (value := vars(args).get(one.name)) is not None:
            given[one.name] = tuple(value) if isinstance(value, list) else value
    return ReadOptions(**given)


def command_of(args: argparse.Namespace) -> str:
    """The command as it was called; of files elsewhere only the name, since a page may travel."""
    words = []
    for word in args.words:
        option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
        words.append(option + equals + (Path(value).name if Path(value).is_absolute() else value))
    return shlex.join(["marda", *words])


def report_to(path: Path | None, page: Callable[..., str], args: argparse.Namespace) -> Any:
    """Where a report goes and what makes it, or None."""
    return None if path is None else (path, partial(page, command=command_of(args)))


def plots_to(folder: Path | None, sections: Callable[..., Any]) -> Any:
    """Where charts go and what makes them, or None."""
    if folder is None:
        return None
    from marda.report.page import plot_files

    warn_of_png(folder)
    return folder, lambda result: plot_files(sections(result))


def warn_of_png(plots: Path | None) -> None:
    """Say before the work that charts will be SVG only, if so, and what PNG needs."""
    if plots is None:
        return
    from marda.report.page import can_make_png

    if not can_make_png():
        need = "PNG needs vl-convert-python: pip install 'marda[report]'"
        print(f"--plots: SVG only; {need}", file=sys.stderr)


@dataclass
class Streams:
    """Where a result is told: files that stand for standard input and output have those names."""

    to_stderr: bool = False
    called: dict[str, str] = field(default_factory=dict)

    def named(self, text: str) -> str:
        """The text as a person knows the files."""
        for path, name in self.called.items():
            text = text.replace(path, name)
        return text


@contextmanager
def standard_streams(args: argparse.Namespace, *inputs: str) -> Iterator[Streams]:
    """Files in the place of `-`: standard input is copied to one, and `--out` from one.

    Only where all went well is anything written to standard output.
    """
    from marda.io import InputError

    streams = Streams()
    dash = Path("-")
    given = {name: vars(args)[name] for name in inputs}
    paths = [p for v in given.values() for p in (v if isinstance(v, list) else [v])]
    if paths.count(dash) > 1:
        raise InputError("standard input (-) can be one file only: name files for the others.")
    out = getattr(args, "out", None) == dash
    if not out and dash not in paths:
        yield streams
        return
    if out and args.json:
        raise InputError("--json and --out - would both write to standard output: name a file.")
    with tempfile.TemporaryDirectory() as folder:
        read, written = Path(folder, "standard input"), Path(folder, "standard output.csv")
        streams.called = {str(read): "standard input", str(written): "standard output"}
        if dash in paths:
            with read.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
            for name, value in given.items():
                several = isinstance(value, list)
                swapped = [read if p == dash else p for p in (value if several else [value])]
                setattr(args, name, swapped if several else swapped[0])
        if out:
            args.out, streams.to_stderr = written, True
        try:
            yield streams
        except InputError as error:
            raise InputError(streams.named(str(error))) from error
        if out:
            sys.stdout.flush()
            with written.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()


def show(
    result: Any, lines: Sequence[str], args: argparse.Namespace, streams: Streams | None = None
) -> None:
    """Print a result for a machine (--json) or a person (with --quiet, nothing but the result)."""
    from marda.adaptation.lines import Aside

    streams = streams or Streams()
    if args.json:
        text = json.dumps(result.to_json(), ensure_ascii=False)
    else:
        text = "\n".join(x for x in lines if not (args.quiet and isinstance(x, Aside))).rstrip()
    print(streams.named(text), file=sys.stderr if streams.to_stderr else sys.stdout)
