"""The ``marda`` command: no logic, and nothing heavy imported for ``--help``.

Exit codes: 0 done; 1 the work failed; 2 the call or its input is wrong (one line on standard
error, no traceback); 130 ended by Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from marda._machine import claim_blas_memory
from marda.cli._common import Parser, refuse_existing
from marda.cli.completion import add_completion
from marda.cli.moments import add_moments
from marda.cli.own_files import (
    add_adapt,
    add_check,
    add_compare,
    add_evaluate,
    add_label,
    add_predict,
)
from marda.cli.reproduce import add_bench, add_data, add_demo, add_report, add_reproduce

#: In the order of ``marda --help``.
COMMANDS = {
    "demo": add_demo, "check": add_check, "adapt": add_adapt, "predict": add_predict,
    "label": add_label, "evaluate": add_evaluate, "compare": add_compare,
    "reproduce": add_reproduce, "report": add_report, "data": add_data,
    "moments": add_moments, "bench": add_bench, "completion": add_completion,
}  # fmt: skip
DONE, FAILED, WRONG_CALL, INTERRUPTED = 0, 1, 2, 130


def parser(called: str | None = None) -> Parser:
    """Build the parser of all commands, or of the one that is called."""
    main_parser = Parser(
        prog="marda",
        usage="marda COMMAND ... | marda COMMAND --help | marda --version",
        add_help=False,
        description="Carry labels from one domain to another, in closed form.",
        epilog="example: marda demo",
        allow_abbrev=False,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=28, width=96),
    )
    # The usage names them: every line of this help is better used for a command.
    main_parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    main_parser.add_argument("--version", action="store_true", help=argparse.SUPPRESS)
    commands = main_parser.add_subparsers(title="commands", metavar="COMMAND ...", prog="marda")
    for name, add in COMMANDS.items():
        if called in (None, name):
            add(commands)
    main_parser.add_common_options()
    return main_parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    main_parser = parser(words[0] if words and words[0] in COMMANDS else None)
    try:
        args = main_parser.parse_args(words)
    except SystemExit as end:  # argparse ends by itself after --help and wrong calls
        return int(end.code or 0)
    if args.version:
        from marda._machine import versions

        print(f"marda {versions()['marda']}")
        return DONE
    if not hasattr(args, "run"):
        main_parser.print_help()
        return DONE
    args.words = words
    # numpy and scipy bring a BLAS each. Its threads wait for the next product without sleep, for
    # 20 ms or so, on cores that the other's need: joint models took two or three times as long.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # the least, as a power of two
    with _ctrl_c() as pressed:
        try:
            refuse_existing(args)
            claim_blas_memory()
            return int(args.run(args))
        except BrokenPipeError:  # `marda … | head`: the reader has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return DONE
        except BaseException as error:
            # Some libraries turn an interrupted import into an ImportError.
            if pressed or isinstance(error, KeyboardInterrupt):
                print(f"\nmarda {args.command}: interrupted.", file=sys.stderr)
                return INTERRUPTED
            if not isinstance(error, Exception) or os.environ.get("MARDA_DEBUG"):
                raise
            code = WRONG_CALL if _is_input_error(error) else FAILED
            print(f"marda {args.command}: {_one_line(error, code)}", file=sys.stderr)
            return code


class _Interrupted(KeyboardInterrupt):
    """Ctrl-C. Python ends by the signal, whatever `main` returns, once a plain KeyboardInterrupt
    has passed an `exec` (of a dataclass, say); of a subclass it takes no notice.
    """


@contextmanager
def _ctrl_c() -> Iterator[list[int]]:
    """Raise `_Interrupted` at SIGINT within; the list says whether it was sent."""
    pressed: list[int] = []

    def interrupt(number: int, _: object) -> NoReturn:
        pressed.append(number)
        raise _Interrupted

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield pressed
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_input_error(error: Exception) -> bool:
    """Whether the caller can mend it: wrong names, missing data, unwritable folders."""
    if isinstance(error, OSError):
        return True
    if isinstance(error, MemoryError):  # the imports below need some
        return False
    try:
        from marda.benchmarks.plan import PlanError
        from marda.benchmarks.store import StoreError
        from marda.datasets import DataError
        from marda.io import InputError
        from marda.moments.files import MomentsFileError
        from marda.persist import ModelFileError
        from marda.persist.onnx import OnnxError
    except Exception:  # out of memory, nothing can be imported any more: tell the first error
        return False
    files = ModelFileError | MomentsFileError | OnnxError
    return isinstance(error, PlanError | StoreError | DataError | InputError | files)


def _one_line(error: Exception, code: int) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}."
    text = " ".join(str(error).split()) or type(error).__name__
    if code == WRONG_CALL:
        return text
    return f"{type(error).__name__}: {text} (set MARDA_DEBUG=1 to see where)"
