"""A model card says what the result says."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from marda.adaptation import adapt
from marda.report.adapted import model_card
from report_pages import SAMPLE, ReadOptions, hostile_files

pytestmark = pytest.mark.usefixtures("few_draws")


@pytest.fixture(scope="module")
def card(tmp_path_factory):
    """A card of the sample, and the result it is of."""
    path, seen = tmp_path_factory.mktemp("card") / "card.md", []

    def made(result):
        seen.append(result)
        return model_card(result, "marda adapt --card card.md")

    adapt("sample:source", "sample:target", SAMPLE, card=(path, made))
    return path.read_text(encoding="utf-8"), seen[0]


def test_what_it_says(card):
    text, result = card
    titles = re.findall("^## (.*)$", text, flags=re.MULTILINE)
    assert titles == ["Model", "Data", "What to expect", "Limits", "How it was made"]
    low, high = result.model.calibration_["expected_interval"]
    assert f"- **Its 90% interval**: {low:.0%} to {high:.0%}\n" in text
    assert f"- **What differs**: {result.model.shift_.sentence()}".replace("_", "\\_") in text
    assert f"{result.n_source:,} labelled rows" in text
    assert f"- **Columns used**: {len(result.preprocessing.columns)}: " in text
    assert "**Carried through, not used**: id" in text
    assert "No label of the target has confirmed the accuracy." in text
    assert text.rstrip().endswith("```console\n$ marda adapt --card card.md\n```")


def test_a_named_method_has_no_estimate(tmp_path):
    path = tmp_path / "c.md"
    adapt("sample:source", "sample:target", SAMPLE, method="S1D", card=(path, model_card))
    text = path.read_text(encoding="utf-8")
    assert "- **Its interval**: not known\n" in text
    assert "Accuracy, expected" not in text
    assert "Its probabilities are not calibrated." in text
    assert "console" not in text  # no command was given


def test_names_are_no_markup(tmp_path):
    path = tmp_path / "c.md"
    files = hostile_files(tmp_path)
    adapt(*files, ReadOptions("y"), method="BL", card=(path, model_card))
    text = path.read_text(encoding="utf-8")
    assert "</script>" not in text
    assert "\\<b\\>dry" in text


def test_folders_of_the_machine_stay_at_home(card):
    """A card and a page travel: of files elsewhere they hold the names alone."""
    _, result = card
    told = replace(
        result,
        notes=(
            "/home/me/x.csv is not UTF-8 and is read as Windows-1252: --encoding names another.",
            "columns of C:\\data\\y.csv are named otherwise: 'a/b'.",
        ),
    )
    text = model_card(told)
    assert "**Note**: x.csv is not UTF-8" in text
    assert "**Note**: columns of y.csv are named otherwise: 'a/b'." in text
    assert "home" not in text
