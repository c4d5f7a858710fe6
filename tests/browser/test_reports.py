"""Every kind of report in a real browser, from the disk."""

from __future__ import annotations

import base64
import json
import re

import pytest

from report_pages import KINDS, heads, page_of

from .conftest import SCREENSHOTS, Page

pytestmark = pytest.mark.browser


@pytest.fixture(params=KINDS)
def page(request, browser, tmp_path_factory):
    """A page that lies in a file."""
    path = tmp_path_factory.mktemp("pages") / f"{request.param}.html"
    path.write_text(page_of(request.param), encoding="utf-8")
    return Page(browser, path)


def test_no_complaint_and_no_request(page):
    page.open()
    assert page.browser.get_log("browser") == []
    messages = [json.loads(m["message"])["message"] for m in page.browser.get_log("performance")]
    asked = {
        m["params"]["request"]["url"].partition(",")[0]
        for m in messages
        if m["method"] == "Network.requestWillBeSent"
    }
    assert asked <= {page.path.as_uri(), "data:"}
    assert page.run("return performance.getEntriesByType('resource').length") == 0


def test_the_policy_refuses_requests(page):
    # The page as it is, with a stranger's image in it: the browser must not even ask.
    text = page.path.read_text(encoding="utf-8")
    page.path.write_text(text.replace("</main>", "<img src='http://127.0.0.1:9/x'></main>"))
    page.open()
    assert any("Content Security Policy" in m["message"] for m in page.browser.get_log("browser"))


LARGEST = """
const area = (mark) => {
  const box = mark.getBoundingClientRect();
  return box.width * box.height;
};
const marks = "[data-tip] circle, [data-tip] rect, [data-tip] path";
const found = [...arguments[0].querySelectorAll(marks)];
const largest = found.reduce((one, other) => (area(other) >= area(one) ? other : one));
largest.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
return largest;
"""


def test_hover_shows_values(page):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    page.open()
    charts = page.browser.find_elements(By.CSS_SELECTOR, ".chart")
    assert charts
    tip = "document.getElementById('tip')"
    for chart in charts:
        mark = page.run(LARGEST, chart)
        ActionChains(page.browser).move_to_element(mark).perform()
        page.wait(f"!{tip}.hidden && {tip}.textContent.trim() !== ''")
        box = page.run(f"const b = {tip}.getBoundingClientRect(); return [b.left, b.right]")
        assert 0 <= box[0] < box[1] <= 1100
        ActionChains(page.browser).move_to_element(
            page.browser.find_element(By.TAG_NAME, "h1")
        ).perform()
        page.wait(f"{tip}.hidden")


@pytest.mark.parametrize("page", ["compare", "demo"], indirect=True)
def test_terms_are_explained_by_keyboard(page):
    page.open()
    page.run("document.querySelector('.term').focus()")
    page.wait("!document.getElementById('tip').hidden")


COLUMN = """
const [table, at] = arguments;
return [...table.tBodies[0].rows].map((row) => {
  const cell = row.cells[at];
  return "sort" in cell.dataset ? cell.dataset.sort : cell.textContent.trim();
});
"""


def test_sorting_sorts(page):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    page.open()
    page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    tables = page.browser.find_elements(By.TAG_NAME, "table")
    sorted_columns = 0
    for table in tables:
        if sorted_columns >= 12:  # one script sorts them all
            break
        for at, head in enumerate(table.find_elements(By.CSS_SELECTOR, "th[aria-sort]")):
            if at > 3:
                break
            button = head.find_element(By.TAG_NAME, "button")
            numeric = page.run(
                "return 'sort' in arguments[0].tBodies[0].rows[0].cells[arguments[1]].dataset",
                table,
                at,
            )
            for way in ("ascending", "descending"):
                button.send_keys(Keys.ENTER)  # the keyboard does what a click does
                assert head.get_attribute("aria-sort") == way
                values = page.run(COLUMN, table, at)
                known = [v for v in values if v != ""]
                assert values[: len(known)] == known  # empty cells stay last
                if numeric:
                    numbers = [float(v) for v in known]
                    assert numbers == sorted(numbers, reverse=way == "descending")
                    sorted_columns += 1
            others = table.find_elements(By.CSS_SELECTOR, "th[aria-sort]:not([aria-sort=none])")
            assert len(others) == 1
    assert sorted_columns > 0


# Texts of a chart that lie outside it or on each other; blocks of the page wider than their place,
# unless these scroll by themselves.
FAULTS = """
const faults = [];
const area = (box) => box.width * box.height;
for (const chart of document.querySelectorAll(".chart")) {
  const place = chart.getBoundingClientRect();
  const texts = [...chart.querySelectorAll("text")];
  const boxes = texts.map((text) => text.getBoundingClientRect());
  texts.forEach((text, k) => {
    const box = boxes[k];
    if (area(box) === 0) return;
    if (box.left < place.left - 3 || box.right > place.right + 3) {
      faults.push(`outside: ${text.textContent}`);
    }
    for (let j = 0; j < k; j += 1) {
      const across = Math.min(box.right, boxes[j].right) - Math.max(box.left, boxes[j].left);
      const down = Math.min(box.bottom, boxes[j].bottom) - Math.max(box.top, boxes[j].top);
      // Boxes of letters are higher than the letters.
      if (across > 1 && down > 0.35 * box.height) {
        faults.push(`overlap: ${text.textContent} | ${texts[j].textContent}`);
      }
    }
  });
}
const blocks = "p, li, h1, h2, dd, dt, figcaption, table, pre, .chart";
for (const part of document.querySelectorAll(blocks)) {
  const scrolls = part.closest(".scroll");
  const box = part.getBoundingClientRect();
  if (area(box) === 0) continue;
  const right = scrolls ? scrolls.getBoundingClientRect().right : box.right;
  if (right > document.documentElement.clientWidth + 1 || box.left < -1) {
    faults.push(`wide: ${part.textContent.slice(0, 60)}`);
  }
  if (getComputedStyle(part).textOverflow === "ellipsis") faults.push("cut");
}
return faults;
"""


@pytest.mark.parametrize("width", [400, 800, 1280, 1600])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_width_and_scheme(page, scheme, width):
    """Accessible, nothing too wide, no label cut or on another."""
    from axe_core_python.selenium import Axe

    page.open(scheme=scheme, width=width, height=800)
    page.screenshot(f"{page.path.stem}-{width}-{scheme}")
    page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert page.run("return document.documentElement.scrollWidth") <= width
    assert page.run(FAULTS) == []
    found = Axe().run(page.browser)["violations"]
    told = [(v["id"], [n["html"][:120] for n in v["nodes"][:3]]) for v in found]
    assert told == []


@pytest.mark.parametrize("width", [400, 800, 1280, 1600])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_heads_in_notebooks(browser, tmp_path, scheme, width):
    from axe_core_python.selenium import Axe

    path = tmp_path / "notebook.html"
    path.write_text(heads(), encoding="utf-8")
    page = Page(browser, path)
    page.open(scheme=scheme, width=width, height=800)
    page.screenshot(f"notebook-{width}-{scheme}")
    assert page.run("return document.documentElement.scrollWidth") <= width
    assert page.run(FAULTS) == []
    over = "[...document.querySelectorAll('dt')].filter((t) => t.scrollWidth > t.clientWidth + 1)"
    assert page.run(f"return {over}.length") == 0
    assert [v["id"] for v in Axe().run(browser)["violations"]] == []


JARGON = re.compile(
    r"\bMMD\b|linear map|covariance|A-distance|McNemar|bootstrap|\bp = |Holm|kernel|tf-idf|hyper|eigen",
    re.IGNORECASE,
)
ABOVE_THE_FOLD = """
const seen = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const range = document.createRange();
  range.selectNodeContents(walk.currentNode);
  const box = range.getBoundingClientRect();
  if (box.height > 0 && box.top < window.innerHeight && box.bottom > 0) {
    seen.push(walk.currentNode.textContent.trim());
  }
}
return seen.join(" ");
"""


@pytest.mark.parametrize("width", [400, 1280])
def test_the_first_screen_has_the_answer_and_no_jargon(page, width):
    page.open(width=width, height=800)
    text = page.run(ABOVE_THE_FOLD)
    assert not JARGON.search(text), text
    kind = page.path.stem
    if kind.startswith("adapt"):
        for words in ("Can I use these predictions?", "Rests on", "What differs"):
            assert words in text
        steps = page.run(
            "return [...document.querySelectorAll('.verdict li')]"
            ".map((step) => step.getBoundingClientRect().bottom)"
        )
        assert len(steps) == 3
        assert max(steps) <= 800


def test_charts_follow_the_colour_scheme(page):
    label = "getComputedStyle(document.querySelector('.chart svg text')).fill"
    background = "getComputedStyle(document.body).backgroundColor"
    seen = []
    for scheme in ("light", "dark"):
        page.open(scheme=scheme)
        seen.append(page.run(f"return [{label}, {background}]"))
    assert seen[0][0] != seen[1][0]
    assert seen[0][1] != seen[1][1]
    # On paper a dark page is light, without being drawn again.
    page.command("Emulation.setEmulatedMedia", media="print")
    assert page.run(f"return {background}") == "rgb(255, 255, 255)"


def test_print(page):
    page.open(scheme="dark")
    pdf = page.command("Page.printToPDF", printBackground=True)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    data = base64.b64decode(pdf["data"])
    (SCREENSHOTS / f"{page.path.stem}.pdf").write_bytes(data)
    assert data.startswith(b"%PDF")


def test_the_keyboard_reaches_the_content_and_shows_where_it_is(page):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    page.open()
    page.browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    focused = page.browser.switch_to.active_element
    assert focused.text == "Skip to the content"
    style = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.run(f"return {style}") == "solid"
    focused.send_keys(Keys.ENTER)
    page.wait("document.activeElement.id === 'content'")
