"""Every "math.md §X" in sources, tests and pages is a heading of docs/math.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "math.md"
PLACES = ("src/**/*.py", "tests/**/*.py", "scripts/**/*.py", "docs/**/*.md", "*.md")
#: "math.md §5.2", "math.md §2, §3 and §9" (over a line break, too) and "§5.4 of math.md".
GAP = r"[\s#]*"
NUMBER = r"§\d+(?:\.\d+)*"
AFTER = re.compile(rf"math\.md\)?{GAP}({NUMBER}(?:{GAP}(?:,|and|to){GAP}{NUMBER})*)")
BEFORE = re.compile(rf"({NUMBER}){GAP}of{GAP}\[?math\.md")

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="no pages in this copy")


def headings(text: str) -> set[str]:
    """Numbers of the headings of a page."""
    return set(re.findall(r"^#+ (\d+(?:\.\d+)*)\.? ", text, re.MULTILINE))


def citations(text: str) -> list[str]:
    """Numbers of the sections of math.md that a text names."""
    found = [
        part
        for cited in AFTER.findall(text) + BEFORE.findall(text)
        for part in re.findall(NUMBER, cited)
    ]
    return [part.removeprefix("§") for part in found]


def test_every_citation_is_a_heading():
    known = headings(PAGE.read_text(encoding="utf-8"))
    found = [
        (str(path.relative_to(ROOT)), number)
        for pattern in PLACES
        for path in sorted(ROOT.glob(pattern))
        if path.name != Path(__file__).name
        for number in citations(path.read_text(encoding="utf-8"))
    ]
    assert len(found) > 30
    assert [f for f in found if f[1] not in known] == []


def test_the_page_cites_itself_rightly():
    text = PAGE.read_text(encoding="utf-8")
    assert {n.removeprefix("§") for n in re.findall(NUMBER, text)} <= headings(text)


def test_sections_are_numbered_without_a_gap():
    numbers = re.findall(r"^## (\d+)\. ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert numbers == [str(k + 1) for k in range(len(numbers))]


def test_citations_are_found():
    text = "(math.md §5.2), math.md §2, §3 and §9; see §5.4 of math.md; by math.md\n# §6. Not §99"
    assert citations(text) == ["5.2", "2", "3", "9", "6", "5.4"]
