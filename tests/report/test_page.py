"""Pieces of pages: tables, text and JSON in HTML."""

from __future__ import annotations

import pytest

from marda.diagnostics.answer import Answer
from marda.diagnostics.verdict import Verdict
from marda.report.charts import WIDTH, Drawing
from marda.report.page import (
    Chart,
    NumberCell,
    Section,
    Term,
    _distinct,
    charts_of,
    facts,
    page,
    paragraph,
    plot_files,
    points,
    table,
)


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


def test_long_words_beside_figures_may_be_broken():
    text = table("c", ("a", "b"), [["x" * 40, "y" * 40], ["x", "y"]])
    assert f'<td class="long">{"y" * 40}</td>' in text
    assert "<td>y</td>" in text


def test_one_row_has_nothing_to_sort():
    assert "button" not in table("c", ("a",), [["x"]])


def test_titles_that_come_twice_are_told_apart():
    names = [s.anchor for s in _distinct([Section("A b"), Section("A b"), Section("C")])]
    assert names == ["a-b", "a-b-2", "c"]


def test_a_term_is_explained_under_the_pointer_and_by_keyboard():
    text = table("c", ("method",), [[Term("S1", 'says "so"')], [Term("own", "")]])
    assert 'tabindex="0" data-tip="says &quot;so&quot;">S1</span>' in text
    assert '<th scope="row">own</th>' in text


ANSWER = Answer(
    "good", "Yes", "Most are right.", 0.8, (0.7, 0.9), 0.5, "Labels.", "<Nothing>.", ("One.",)
)


def made(**changes):
    given = {"kind": "adapt", "title": "T", "lead": "L", "verdict": None, "sections": ()}
    return page(**given | changes)


def test_the_answer_comes_first():
    text = made(
        verdict=ANSWER, sections=[Section("Evidence", (paragraph("e"),))], command="marda <x>"
    )
    places = [
        text.index(t) for t in ("80%", "Most are right.", "Labels.", "&lt;Nothing&gt;", "One.")
    ]
    assert places == sorted(places)
    assert places[-1] < text.index("Evidence")
    assert "<code>marda &lt;x&gt;</code>" in text
    assert "left:70.0%;width:20.0%" in text  # the interval
    assert 'class="dot" style="left:80.0%"' in text


def test_what_is_not_known_has_no_dot():
    unknown = Answer("unclear", "?", "t", None, (0.0, 1.0), 0.5, "b", "s", ())
    text = made(verdict=unknown)
    assert "<b>?</b>" in text
    assert 'class="dot"' not in text
    none = Answer("unclear", "?", "t", None, None, 0.5, "b", "s", ())
    assert 'class="gauge"' not in made(verdict=none)


def test_a_verdict_is_no_answer():
    assert 'aria-labelledby="verdict"' in made(verdict=Verdict("bad", "No", "t"))
    assert "verdict bad" not in made()


def test_charts_have_names_for_files():
    small, wide = (Chart(Drawing("<g/>", w, 10), "n", "") for w in (WIDTH, 2 * WIDTH))
    sections = [Section("A b", (small, paragraph("x"), (wide, small))), Section("A b", (small,))]
    names = ["01-a-b", "02-a-b", "03-a-b", "04-a-b-2"]
    assert list(charts_of(sections)) == names
    files = plot_files(sections)
    assert [n for n in files if n.endswith(".svg")] == [f"{n}.svg" for n in names]
    # A wide chart scrolls by itself, and a keyboard reaches it.
    assert made(sections=sections).count('class="scroll"') == 1


def test_png_where_it_can_be_made(monkeypatch):
    pytest.importorskip("vl_convert")
    sections = [Section("A", (Chart(Drawing("<g/>", WIDTH, 10), "n", ""),))]
    assert plot_files(sections)["01-a.png"].startswith(b"\x89PNG")
    monkeypatch.setattr("marda.report.page.can_make_png", lambda: False)
    assert list(plot_files(sections)) == ["01-a.svg"]
