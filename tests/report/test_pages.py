"""Every kind of page: whole, escaped, without requests, small, and readable without charts."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from marda.report.page import facts, table
from report_pages import HOSTILE, KINDS, heads, page_of

pytestmark = pytest.mark.usefixtures("few_draws")

VOID = {"meta", "link", "img", "br", "wbr"}


class Reader(HTMLParser):
    """What a browser would make of the text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.links, self.headings = [], [], [], [], []
        self.scripts, self.words = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if attributes.get("href", "").startswith("#"):
            self.links.append(attributes["href"][1:])
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif self.open and self.open[-1] != "style":
            self.words.append(data)


@pytest.fixture(params=KINDS, scope="module")  # all tests of a page after each other
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def read(kind):
    return Reader(page_of(kind))


def test_every_tag_is_closed_and_every_place_has_its_own_name(read):
    assert read.open == []
    assert len(read.ids) == len(set(read.ids))
    assert set(read.links) <= set(read.ids)


def test_headings_are_in_order(read):
    assert read.headings[0] == 1
    assert read.headings.count(1) == 1
    assert set(read.headings) == {1, 2}


def test_nothing_is_fetched(read):
    for tag, attributes in read.tags:
        assert "src" not in attributes, tag
        for name in ("href", "action", "data"):
            assert not attributes.get(name, "").startswith(("http", "//", "file")), tag
    policy = [a["content"] for t, a in read.tags if t == "meta" and "http-equiv" in a]
    assert len(policy) == 1
    assert policy[0].startswith("default-src 'none'")
    assert "unsafe-eval" not in policy[0]


def test_page_is_small(kind):
    assert len(page_of(kind).encode()) < 800_000


def test_names_from_files_are_only_text(kind, read):
    assert not any(tag == "img" for tag, _ in read.tags)
    if kind in ("adapt", "reproduce"):
        assert HOSTILE in "".join(read.words)
    if kind == "adapt":
        assert "<b>dry" in "".join(read.words)


def test_every_chart_has_a_drawing_a_name_and_figures(kind, read):
    drawn = [a for t, a in read.tags if a.get("class") == "chart"]
    assert drawn
    assert all(a["role"] == "img" and a["aria-label"] for a in drawn)
    svgs = [t for t, a in read.tags if t == "svg" and a.get("role") != "img"]
    assert len(svgs) == len(drawn)
    tables = [t for t, _ in read.tags if t == "table"]
    assert len(tables) >= len(drawn)


WANTED = {
    "adapt": ["Warnings", "How far apart", "two dimensions", "differ most", "Time and memory"],
    "adapt-labelled": ["Confusion matrix", "Convergence", "McNemar", "had not seen its label"],
    "compare": ["Which methods differ", "by true class and method", "Confusion matrix"],
    "compare-unlabelled": ["Labels are needed to choose", "Convergence of J12M"],
    "demo": [
        "Wrong before, right now",
        "editorials → tweets",
        "Confusion matrix",
        "two dimensions",
    ],
    "reproduce": ["Paper against ours", "Task by task: AMT, US", "findings", "failed: no luck"],
    "reproduce-auto": ["AMT, US, 12 tasks", "Checks and notes", "auto"],
}


def test_content(kind, read):
    text = " ".join("".join(read.words).split())
    for words in WANTED[kind]:
        assert words in text
    assert "of memory" in text


def test_a_head_tells_nothing_twice_and_breaks_long_names_between_words():
    text = heads()
    assert text.count("of the target is predicted as") == 1
    assert "spending_<wbr>on_<wbr>household" in text
    shown = table("names", ("a", "b"), [["S1D+ridge", "SubspaceAlignment"]])
    assert "S1D+<wbr>ridge" in shown
    assert "Subspace<wbr>Alignment" in shown
    assert "<dd>mean_<wbr>of 0.5</dd>" in facts([("What", "mean_of 0.5")])
