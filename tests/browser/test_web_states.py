"""The page over time: links, the way back, several tabs, servers that are slow or fail, and hands that use a keyboard alone."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.browser.conftest import ROOT, SMALL, linked
from tests.browser.test_web import asking, commit, field

if TYPE_CHECKING:
    from playwright.sync_api import Route

pytestmark = pytest.mark.browser


# -- links and tabs -------------------------------------------------------------------------------------------------


def test_the_link_holds_the_whole_question(tab):
    opened = tab()
    page = commit(opened, "workload.micro_batch_size", "4")
    head, step = page.inner_text("#head"), page.locator("#figures .tiles data").first.get_attribute("value")
    page.reload()
    opened.settled()
    assert page.inner_text("#head") == head
    assert page.locator("#figures .tiles data").first.get_attribute("value") == step
    assert field(page, "workload.micro_batch_size").input_value() == "4"
    page.click("[data-take=link]")
    assert page.evaluate("navigator.clipboard.readText()") == page.url


def test_the_way_back_restores_the_question(tab):
    opened = tab()
    page = commit(opened, "workload.micro_batch_size", "4")
    commit(opened, "workload.micro_batch_size", "2")
    page.go_back()
    opened.settled()
    assert field(page, "workload.micro_batch_size").input_value() == "4"
    assert opened.question()["scenario"]["workload"]["micro_batch_size"] == 4
    page.go_back()
    opened.settled()
    assert field(page, "workload.micro_batch_size").input_value() == "8"
    page.go_forward()
    opened.settled()
    assert field(page, "workload.micro_batch_size").input_value() == "4"


def test_a_link_in_an_open_page_is_followed(tab):
    opened = tab()
    opened.answered(
        lambda: opened.page.evaluate("(hash) => { location.hash = hash; }", linked(asking("memory"))), "**/api/memory"
    )
    assert opened.page.locator("#verbs input[value=memory]").is_checked()


def test_a_long_question_is_packed(tab):
    names = [f"a100{{memory.bandwidth={1 + place / 100:.2f}x}}" for place in range(60)]
    opened = tab(asking("compare", {"gpus": names}))
    page = opened.page
    assert page.url.partition("#scenario=")[2].startswith("~") or len(page.url) < 2200
    page.reload()
    opened.settled()
    assert page.locator(".chips li").count() == 60


def test_two_tabs_do_not_disturb_each_other(tab):
    one = tab()
    other = tab(asking(workload={"micro_batch_size": 2}), beside=one)
    commit(one, "workload.micro_batch_size", "16")
    commit(other, "workload.micro_batch_size", "1")
    one.page.reload()
    one.settled()
    assert one.question()["scenario"]["workload"]["micro_batch_size"] == 16
    assert other.question()["scenario"]["workload"]["micro_batch_size"] == 1
    assert one.said == other.said == []


# -- what is taken along --------------------------------------------------------------------------------------------


def test_command_and_yaml_give_the_same_answer(tab, tmp_path):
    page = tab().page
    step = float(page.locator("#figures .tiles data").first.get_attribute("value"))
    page.click("[data-take=command]")
    command = page.evaluate("navigator.clipboard.readText()")
    page.click("[data-take=yaml]")
    path = tmp_path / "scenario.yaml"
    path.write_text(page.evaluate("navigator.clipboard.readText()"), encoding="utf-8")
    assert yaml.safe_load(path.read_text())["model"] == "gpt2-124m"
    for words in (shlex.split(command)[1:], ["run", str(path)]):
        done = subprocess.run(
            [sys.executable, "-m", "roofsim", *words, "--json"], capture_output=True, text=True, check=True, cwd=ROOT
        )
        assert json.loads(done.stdout)["step_time"] == step


def test_python_gives_the_same_answer(tab):
    page = tab().page
    step = float(page.locator("#figures .tiles data").first.get_attribute("value"))
    page.click("[data-take=python]")
    code = page.evaluate("navigator.clipboard.readText()") + "\nprint(answer.step_time)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert float(done.stdout.split()[-1]) == step


def test_a_report_is_downloaded(tab, open_page, tmp_path):
    page = tab().page
    with page.expect_download(timeout=60_000) as download:
        page.click("[data-take=report]")
    assert download.value.suggested_filename == "roofsim-run.html"
    path = tmp_path / "report.html"
    download.value.save_as(path)
    report, said = open_page(path)
    assert report.inner_text("h1") == page.inner_text("#head h1")
    assert said == []


def test_a_report_is_saved_and_listed(tab):
    opened = tab()
    page = opened.page
    with page.expect_response("**/api/save", timeout=60_000):
        page.click("#save-report")
    link = page.locator("#saved a").first
    link.wait_for()
    assert link.inner_text() == page.inner_text("#head h1")
    with opened.context.expect_page() as beside:
        link.click()
    assert beside.value.inner_text("h1") == link.inner_text()
    commit(opened, "workload.micro_batch_size", "4")
    page.locator("#saved").get_by_role("button", name="Ask again").first.click()
    opened.settled()
    assert field(page, "workload.micro_batch_size").input_value() == "8"


# -- servers --------------------------------------------------------------------------------------------------------


#: Notes when Enter is pressed, and when the line of progress comes, both by the clock of the page.
PROGRESS = """() => {
    addEventListener('keydown', () => { window.pressedAt = performance.now(); }, { capture: true, once: true });
    const line = document.getElementById('progress');
    new MutationObserver(() => { if (!line.hidden) window.toldAt ??= performance.now(); }).observe(line, { attributes: true });
}"""


def hold(page, pattern, held):
    """Keep requests until somebody lets them go."""

    def keep(route):
        held.append(route)

    page.route(pattern, keep)


def test_an_older_answer_never_overwrites_a_newer_one(tab):
    opened = tab()
    page = opened.page
    held: list[Route] = []
    hold(page, "**/api/run", held)
    for text in ("4", "2"):
        field(page, "workload.micro_batch_size").fill(text)
        field(page, "workload.micro_batch_size").press("Enter")
        page.wait_for_timeout(200)
    newest = held[-1]
    assert json.loads(newest.request.post_data or "")["scenario"]["workload"]["micro_batch_size"] == 2
    newest.continue_()
    opened.settled()
    answered = page.inner_text("#head")
    for route in held[:-1]:
        with contextlib.suppress(Exception):  # the page has given it up
            route.continue_()
    page.wait_for_timeout(700)
    assert page.inner_text("#head") == answered
    assert "2 x 1,024" in answered


def test_a_slow_server_shows_progress_and_can_be_left(tab):
    opened = tab()
    page = opened.page
    held: list[Route] = []
    hold(page, "**/api/run", held)
    page.evaluate(PROGRESS)
    field(page, "workload.micro_batch_size").fill("4")
    field(page, "workload.micro_batch_size").press("Enter")
    page.wait_for_selector("#progress:not([hidden])")
    assert page.evaluate("toldAt - pressedAt") >= 300.0  # what comes sooner shows no progress
    page.locator("#progress-text", has_text=re.compile(r"[1-9] s")).wait_for()
    page.click("#cancel")
    assert page.is_hidden("#progress")
    assert page.is_visible("#stale")
    assert page.evaluate("document.activeElement.id") == "ask"
    page.unroute("**/api/run")
    opened.answered(lambda: page.click("#ask"), "**/api/run")
    assert "4 x 1,024" in page.inner_text("#head")
    assert page.is_hidden("#stale")


@pytest.mark.parametrize(
    ("status", "way"),
    [
        (None, "roofsim web"),
        (500, "Its terminal says why"),
        (403, "Reload the page"),
        (429, "busy"),
        (504, "Ask something smaller"),
        (413, "without weights"),
    ],
)
def test_a_failing_server_says_what_to_do(tab, status, way):
    opened = tab()
    page = opened.page
    page.route("**/api/run", lambda route: route.abort() if status is None else route.fulfill(status=status, body="no"))
    field(page, "workload.micro_batch_size").fill("4")
    field(page, "workload.micro_batch_size").press("Enter")
    page.wait_for_selector("#problem:not([hidden])")
    assert way in page.inner_text("#problem")
    assert page.is_visible("#shown")
    page.unroute("**/api/run")
    opened.answered(lambda: page.get_by_role("button", name="Ask again").click(), "**/api/run")
    assert page.is_hidden("#problem")
    assert "4 x 1,024" in page.inner_text("#head")


def test_a_catalog_that_does_not_come_says_what_to_do(tab):
    opened = tab(None)
    page = opened.page
    page.route("**/api/catalog", lambda route: route.abort())
    page.goto(opened.address)
    page.wait_for_selector("#problem:not([hidden])")
    assert "roofsim web" in page.inner_text("#problem")


# -- keyboards ------------------------------------------------------------------------------------------------------


def test_the_keyboard_reaches_everything_and_gets_out_again(tab):
    page = tab(width=1280).page
    page.locator("body").press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached, seen = (
        [],
        "(() => { const one = document.activeElement; return one.id || one.className || one.tagName; })()",
    )
    ringed = """(() => {
        const one = document.activeElement;
        const ring = one.matches('.verbs input, .segments input') ? one.nextElementSibling : one;
        return getComputedStyle(ring).outlineStyle;
    })()"""
    for _ in range(400):
        page.keyboard.press("Tab")
        name = page.evaluate(seen)
        outline = page.evaluate(ringed)
        if page.evaluate("document.activeElement === document.body"):
            break
        assert outline != "none" or "SUMMARY" in name, name
        reached.append(name)
    else:
        pytest.fail("the end of the page was not reached")
    places = [reached.index(name) for name in ("theme", "ask")]
    assert places == sorted(places)
    assert any("taken" in name for name in reached)
    assert any("sort" in name for name in reached)


def test_the_skip_link_leads_to_the_answer_and_keeps_the_question(tab):
    opened = tab()
    page = opened.page
    address = page.url
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "answer"
    assert page.url == address


def test_answers_are_told_to_screen_readers(tab):
    opened = tab()
    page = commit(opened, "workload.micro_batch_size", "4")
    said = page.inner_text("#live")
    assert "Limited by" in said
    assert "gpt2-124m" in said
    assert page.locator("main").count() == 1
    assert page.locator("form[aria-label]").count() == 1


def test_a_heavy_question_waits_for_the_button(tab):
    opened = tab(asking("sweep", {"axes": ["micro_batch_size=1,2"]}))
    page = opened.page
    box = field(page, "options.axes")
    box.fill("micro_batch_size=1,2,4")
    box.blur()
    assert page.is_visible("#stale")
    opened.answered(lambda: page.click("#ask"), "**/api/sweep")
    assert page.is_hidden("#stale")
    assert "3 points" in page.inner_text("#head")


def test_small_screens_are_led_to_the_answer(tab):
    opened = tab(width=375)
    page = opened.page
    field(page, "workload.micro_batch_size").fill("4")
    opened.answered(lambda: page.click("#ask"), "**/api/run")
    assert page.evaluate("document.activeElement.id") == "answer"
    assert page.locator("#head h1").evaluate("node => node.getBoundingClientRect().top") < 700
    assert SMALL["scenario"]["model"] in page.inner_text("#head h1")
