"""Pieces of pages: tables, text and JSON in HTML."""

from __future__ import annotations

import json

import pytest

from marda.report.page import (
    NumberCell,
    Section,
    _distinct,
    facts,
    json_in_html,
    paragraph,
    points,
    table,
)


def test_json_cannot_end_its_script():
    value = {"a": "</script><!--\u2028", "b": [1.5, None]}
    text = json_in_html(value)
    assert "<" not in text
    assert "\u2028" not in text
    assert json.loads(text) == value


def test_not_a_number_never_reaches_a_page():
    with pytest.raises(ValueError, match="JSON"):
        json_in_html({"a": float("nan")})


@pytest.mark.parametrize("make", [paragraph, lambda t: points([t]), lambda t: facts([(t, t)])])
def test_text_is_escaped(make):
    assert "<i>" not in make("<i>&")
    assert "&lt;i&gt;&amp;" in make("<i>&")


def test_table():
    text = table(
        'with "quotes"',
        ("name", "figure"),
        [
            ["<a>", NumberCell("1.0", 1.0, strong=True, mark=True)],
            ["b", NumberCell("–", float("nan"))],
        ],
    )
    assert 'aria-label="with &quot;quotes&quot;"' in text
    assert '<th scope="row">&lt;a&gt;</th>' in text
    assert '<td class="number" data-sort="1"><strong><u>1.0</u></strong></td>' in text
    assert '<td class="number" data-sort="">–</td>' in text
    assert text.count('aria-sort="none"') == 2


def test_one_row_has_nothing_to_sort():
    assert "button" not in table("c", ("a",), [["x"]])


def test_titles_that_come_twice_are_told_apart():
    names = [s.anchor for s in _distinct([Section("A b"), Section("A b"), Section("C")])]
    assert names == ["a-b", "a-b-2", "c"]
