"""Reports as a browser shows them: no error, numbers as in the data, no scrolling sideways on a phone, text that can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser
#: What is asked of a page, in its own language.
NUMBERS, CONTRAST, CHARTS = (
    (Path(__file__).parent / f"{name}.js").read_text(encoding="utf-8") for name in ("numbers", "contrast", "charts")
)


#: Width in pixels and colours: all of a report, one after the other, in one tab.
LOOKS = [(375, "light"), (375, "dark"), (900, "dark"), (900, "light")]


def test_a_report_is_whole_and_readable(report, open_page):
    page, said = open_page(report, width=375)
    assert page.title() != "broken"
    count, wrong = page.evaluate(NUMBERS)
    assert wrong == []
    assert count > 5
    for width in (375, 900):  # as it opens, before anything is unfolded
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    for summary in page.query_selector_all("summary"):  # what encloses one comes before it
        if not summary.evaluate("node => node.parentElement.open"):
            summary.click()
    page.evaluate("document.querySelectorAll('#tip').forEach((tip) => { tip.hidden = true; })")
    for width, colours in LOOKS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=colours)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(CONTRAST) == [], (width, colours)
        assert page.evaluate(CHARTS) == [], (width, colours)
    assert said == []


def test_what_is_pointed_at_says_what_it_is(reports, open_page):
    page, said = open_page(reports("run"))
    page.hover("figure[data-of='/charts/roofline'] .wide .dot >> nth=0")
    tip = page.inner_text("#tip")
    assert "of the step" in tip
    assert "FLOP/s" in tip
    drawing = page.query_selector("figure[data-of='/charts/market'] .wide svg")
    drawing.scroll_into_view_if_needed()
    box = drawing.bounding_box()
    page.mouse.move(box["x"] + 0.45 * box["width"], box["y"] + 0.8 * box["height"])
    assert "step " in page.inner_text("#tip")
    page.keyboard.press("Escape")
    assert page.is_hidden("#tip")
    assert said == []


def test_a_report_works_by_keyboard(reports, open_page):
    page, _ = open_page(reports("run"))
    page.focus("figure[data-of='/charts/roofline'] .wide .dot >> nth=0")
    assert "of the step" in page.inner_text("#tip")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.matches('.m')")


def test_data_and_command_can_be_taken_along(reports, open_page):
    page, said = open_page(reports("run"))
    with page.expect_download() as download:
        page.click("#save")
    assert download.value.suggested_filename == "roofsim.json"
    page.click(".copy >> nth=0")
    page.locator(".copy", has_text=re.compile("copied|selected")).wait_for()
    assert said == []


def test_a_report_prints(reports, open_page):
    page, _ = open_page(reports("run"))
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert len(page.pdf()) > 20_000
