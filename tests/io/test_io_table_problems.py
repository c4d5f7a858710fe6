"""Messages for the command line, and the same for Python."""

from __future__ import annotations

import pytest

from marda.io.table import InputProblem, Problems, as_keywords


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        ("leave it out with --drop 'x'.", "leave it out with drop=['x']."),
        ("with --drop 'it's'.", 'with drop=["it\'s"].'),
        (
            "use --text 'a, b', --id 'x' or --drop 'x'.",
            "use text=['a', 'b'], id='x' or drop=['x'].",
        ),
        ("(--keep 'a,\"b, c\"').", "(keep=['a', 'b, c'])."),
        ("say --na 'n.v.' --missing impute; else", "say na=['n.v.'], missing='impute'; else"),
        ("say --na 3 if it means", "say na=['3'] if it means"),
        ("--decimal point or --decimal comma", "decimal='point' or decimal='comma'"),
        ("use --scale standard.", "use scale='standard'."),
        ("--method auto chooses --noise by itself", "method='auto' chooses noise by itself"),
        ("name it with --encoding (cp1251).", "name it with encoding (cp1251)."),
        ("label some rows and run marda compare.", "label some rows and compare methods."),
        ("Run marda compare on the same rows", "Compare methods on the same rows"),
        ("(marda label names more of them)", "(to_label names more of them)"),
        ("nothing to say here", "nothing to say here"),
    ],
)
def test_options_as_keywords(told, wanted):
    assert as_keywords(told) == wanted


def test_several_problems_as_keywords():
    error = Problems(
        [
            InputProblem("a", (("--drop", "x"), ("--decimal", "point|comma"))),
            InputProblem("b", (("--drop", "y, z"), ("--missing", "impute"))),
        ]
    )
    assert as_keywords(str(error)).endswith(
        "In one go: drop=['x', 'y, z'], decimal='point' or 'comma', missing='impute'"
    )
