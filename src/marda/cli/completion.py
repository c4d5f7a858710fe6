"""``marda completion``: what the shell offers after a tab, from the parsers themselves."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Any

from marda.cli._common import Parser, add_command, output_file, output_folder

SHELLS = ("bash", "zsh", "fish")


def add_completion(commands: Any) -> None:
    """Add ``marda completion``."""
    parser = add_command(
        commands,
        "completion",
        run_completion,
        "print a script that lets a shell complete commands and options",
        usage="{bash,zsh,fish}",
        example="marda completion bash",
    )
    parser.add_argument(
        "shell", choices=SHELLS, help="save what is printed where it looks for completions"
    )


def run_completion(args: argparse.Namespace) -> int:
    """Print the script."""
    from marda.cli import parser

    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](parser()), end="")
    return 0


def _walk(parser: Parser, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Parser]]:
    """Every command with the words that call it, the whole first."""
    yield words, parser
    for name, part in parser.commands.items():
        yield from _walk(part, (*words, name))


def _options(parser: Parser) -> list[argparse.Action]:
    return [a for a in parser.arguments if a.option_strings]


def _choices(action: argparse.Action) -> list[str]:
    return [str(value) for value in action.choices or ()]


def _is_file(action: argparse.Action) -> bool:
    """Whether a value names a file: marda's own types say so, or the word that stands for it."""
    named = action.metavar in ("FILE", "DATA", "RESULT.csv")
    return action.type in (Path, output_file, output_folder) or named


def _positional(parser: Parser) -> list[str]:
    """Words that may stand without an option: commands, or choices."""
    choices = (c for a in parser.arguments if not a.option_strings for c in _choices(a))
    return [*parser.commands, *choices]


# bash --------------------------------------------------------------------------------------------

BASH = """\
# bash completion of marda: source it, or save it as "marda" among your bash completions.
_marda() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}} at="" word
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD - 1}}"; do
        case "$at $word" in
{steps}
        esac
    done
    local options="" words="" values=""
    case "$at" in
{commands}
    esac
    COMPREPLY=()
    case "$values" in
        "") ;;
        -) return ;;  # a value of its own, or a file
        *) COMPREPLY=($(compgen -W "$values" -- "$cur")); return ;;
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$cur"))
    elif [[ -n $words ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$cur"))
    fi
}}
complete -o default -F _marda marda
"""


def _bash(parser: Parser) -> str:
    steps, commands = [], []
    for words, part in _walk(parser):
        at = " ".join(words)
        if words:
            steps.append(f'            "{" ".join(words[:-1])} {words[-1]}") at="{at}" ;;')
        flags = " ".join(flag for a in _options(part) for flag in a.option_strings)
        lines = [f'        "{at}")', f'            options="{flags}"']
        if found := _positional(part):
            lines.append(f'            words="{" ".join(found)}"')
        values = []
        for action in (a for a in _options(part) if a.nargs != 0):
            offered = " ".join(_choices(action)) or "-"
            flags = "|".join(action.option_strings)
            values.append(f'                {flags}) values="{offered}" ;;')
        if values:
            lines += ['            case "$prev" in', *values, "            esac"]
        commands.append("\n".join([*lines, "            ;;"]))
    return BASH.format(steps="\n".join(steps), commands="\n".join(commands))


# zsh ---------------------------------------------------------------------------------------------

ZSH = """\
#compdef marda
# zsh completion of marda: save it as "_marda" in a folder of your fpath.
{functions}
if [ "$funcstack[1]" = "_marda" ]; then _marda "$@"; else compdef _marda marda; fi
"""


def _zsh(parser: Parser) -> str:
    functions = []
    for words, part in _walk(parser):
        name = "_".join(["_marda", *words])
        specs = [_zsh_option(a) for a in _options(part)]
        for action in part.arguments:
            if not action.option_strings:
                values = f"({' '.join(_choices(action))})" if action.choices else "_files"
                specs.append(quote(f"*:{action.metavar or action.dest}:{values}"))
        if not part.commands:
            functions.append(_function(name, "_arguments " + " \\\n        ".join(specs)))
            continue
        told = " ".join(quote(f"{n}:{_text(p.description)}") for n, p in part.commands.items())
        cases = "; ".join(f"{n}) {name}_{n} ;" + ";" for n in part.commands)
        body = f"""local line state
    _arguments -C {" ".join(specs)} '1: :->command' '*:: :->rest'
    case $state in
        command) local -a commands=({told}); _describe command commands ;;
        rest) case $line[1] in {cases} esac ;;
    esac"""
        functions.append(_function(name, body))
    return ZSH.format(functions="\n".join(functions))


def _function(name: str, body: str) -> str:
    return f"{name}() {{\n    {body}\n}}"


def _zsh_option(action: argparse.Action) -> str:
    text = _text(action.help).replace("[", "(").replace("]", ")")
    spec = f"[{text}]"
    if action.nargs != 0:
        what = "_files" if _is_file(action) else f"({' '.join(_choices(action))})"
        spec += f":{action.metavar or action.dest}:{what if what != '()' else ' '}"
    flags = action.option_strings
    first = "{" + ",".join(flags) + "}" if len(flags) > 1 else f"'*'{flags[0]}"
    return first + quote(spec)


# fish --------------------------------------------------------------------------------------------


def _fish(parser: Parser) -> str:
    lines = ["# fish completion of marda: save it as ~/.config/fish/completions/marda.fish."]
    for words, part in _walk(parser):
        seen = [f"__fish_seen_subcommand_from {word}" for word in words]
        below = " ".join(part.commands)
        here = [*seen, f"not __fish_seen_subcommand_from {below}"] if below else seen
        start = f"complete -c marda -n {quote('; and '.join(here))}"
        for name, command in part.commands.items():
            lines.append(f"{start} -f -a {name} -d {quote(_text(command.description))}")
        for action in part.arguments:
            if not action.option_strings:
                if action.choices:
                    lines.append(f"{start} -f -a {quote(' '.join(_choices(action)))}")
                continue
            names = " ".join(
                f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
                for flag in action.option_strings
            )
            value = ""
            if action.nargs != 0:
                value = " -r" if _is_file(action) else " -x"
                value += f" -a {quote(' '.join(_choices(action)))}" if action.choices else ""
            lines.append(f"{start} {names}{value} -d {quote(_text(action.help))}")
    return "\n".join(lines) + "\n"


def _text(text: str | None) -> str:
    """Help in one line; hidden help is none."""
    return (
        "" if text in (None, argparse.SUPPRESS) else str(text).replace("%%", "%").replace(":", " ")
    )
