"""The page without a pointer and without sight: what the keyboard reaches, whether one sees it, what controls are called."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from tests.browser.conftest import SMALL
from tests.browser.test_web import asking, field

pytestmark = pytest.mark.browser
#: Gives the controls that a keyboard should reach, in the order of the page; of a group of radio buttons the chosen one.
CONTROLS = (Path(__file__).parent / "controls.js").read_text(encoding="utf-8")
ENGINE = {"engine": "pytorch-eager"}
#: Question -> what it asks for of the small one; searches name the engine, which makes them short.
QUESTIONS = {
    "run": {},
    "fit": {"largest": "micro-batch-size"},
    "compare": {"gpus": ["a100", "h100", "l4"]},
    "advise": {},
    "plan": {"gpus": 2},
    "serve": {},
    "need": {"step_time": "20ms"},
    "whatif": {"changes": ["memory.bandwidth=2x"]},
    "sweep": {"axes": ["micro_batch_size=1,2,4", "memory.bandwidth=1x,2x"]},
    "memory": {},
    "timeline": {},
    "explain": {"figure": "step_time"},
}
#: Roles of what a person operates, and of pictures: each must say what it is.
NAMED = {
    "button",
    "link",
    "textbox",
    "combobox",
    "listbox",
    "option",
    "radio",
    "radiogroup",
    "slider",
    "searchbox",
    "spinbutton",
    "checkbox",
    "image",
    "img",
    "dialog",
    "columnheader",
    "DisclosureTriangle",
    "heading",
    "form",
    "main",
}


def question(verb):
    work = {"request_rate": 4, "prompt_length": 200, "output_length": 50} if verb == "serve" else {}
    asked = asking(verb, QUESTIONS[verb], workload=ENGINE | work)
    if verb == "serve":
        asked["scenario"]["workload"] = work
    return asked


def named(page):
    """Return what the accessibility tree holds of controls and pictures: role and name of each."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    said = [
        (node["role"]["value"], node.get("name", {}).get("value", "").strip())
        for node in nodes
        if not node.get("ignored") and node.get("role")
    ]
    return [(role, name) for role, name in said if role in NAMED]


@pytest.mark.parametrize(("width", "dark"), [(375, True), (1280, False)], ids=["phone-dark", "desk-light"])
@pytest.mark.parametrize("verb", QUESTIONS)
def test_each_answer_is_clean_and_named(tab, verb, width, dark):
    opened = tab(question(verb), width=width, dark=dark)
    page = opened.page
    assert page.is_hidden("#problem"), page.inner_text("#problem")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    violations = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    assert [(one["id"], [node["html"][:160] for node in one["nodes"]]) for one in violations] == []
    tree = named(page)
    assert len(tree) > 40
    assert [role for role, name in tree if not name] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.said == []


@pytest.mark.parametrize("width", [375, 1280])
def test_the_keyboard_reaches_every_control_in_order_and_sees_it(tab, width):
    opened = tab(width=width)
    page = opened.page
    page.wait_for_selector("[data-slider=price] polyline")
    page.evaluate("document.querySelectorAll('#question details').forEach((one) => { one.open = true; })")
    expected = page.evaluate(f"({CONTROLS}).mark()")
    assert len(expected) > 60
    page.evaluate("document.activeElement.blur()")
    reached, unseen = [], []
    for _ in range(len(expected) + 1):
        page.keyboard.press("Tab")
        now = page.evaluate(f"({CONTROLS}).focused()")
        if now is None:
            break
        reached.append(now["place"])
        if not (now["ringed"] and now["shown"]):
            unseen.append(now)
    assert reached == list(range(len(expected))), [
        expected[place] for place in set(range(len(expected))) - set(reached)
    ]
    assert [(each["what"], each["ringed"], each["shown"]) for each in unseen] == []
    for place in reversed(reached[-8:]):  # and back again: nothing holds the focus
        page.keyboard.press("Shift+Tab")
        assert page.evaluate(f"({CONTROLS}).focused()")["place"] == place
    assert opened.said == []


def test_every_question_is_asked_and_read_without_a_pointer(tab):
    opened = tab(asking(workload=ENGINE))
    page = opened.page
    page.locator("#verbs input:checked").focus()
    titles = page.locator("#verbs span").all_inner_texts()
    for place, title in enumerate(titles):
        if place:
            with page.expect_response("**/api/*", timeout=120_000):
                page.keyboard.press("ArrowRight")
            opened.settled()
        now = page.evaluate("document.activeElement.nextElementSibling.textContent")
        assert now == title  # the answer does not take the focus away
        assert page.is_hidden("#problem"), page.inner_text("#problem")
        assert page.inner_text("#head h1") in page.inner_text("#live")
    assert len(titles) == len(QUESTIONS)
    assert opened.said == []


def test_each_kind_of_control_is_worked_by_keys(tab):
    opened = tab(asking(workload=ENGINE))
    page, press = opened.page, opened.page.keyboard.press
    box = field(page, "model")
    box.focus()
    press("Control+a")
    page.keyboard.type("gpt2-355")
    assert box.get_attribute("aria-expanded") == "true"
    press("ArrowDown")
    opened.answered(lambda: press("Enter"))
    assert opened.question()["scenario"]["model"] == "gpt2-355m"
    page.locator("#paste > summary").focus()
    press("Enter")
    assert page.locator("#paste textarea").is_visible()
    page.locator(".segments input:checked").focus()
    opened.answered(lambda: press("ArrowRight"))
    assert opened.question()["scenario"]["workload"]["phase"] == "prefill"
    field(page, "workload.precision").focus()
    opened.answered(lambda: page.keyboard.type("fp16"))
    assert opened.question()["scenario"]["workload"]["precision"] == "fp16"
    field(page, "workload.batch_size").focus()
    press("Control+a")
    page.keyboard.type("none")
    opened.answered(lambda: press("Enter"))
    assert page.evaluate("document.activeElement.getAttribute('aria-invalid')") == "true"
    assert page.locator("#problem[role=alert]").is_visible()
    press("Control+a")
    page.keyboard.type("2")
    opened.answered(lambda: press("Enter"))
    assert page.is_hidden("#problem")
    page.locator("[data-slider=bandwidth] input").focus()
    with page.expect_response("**/api/run", timeout=60_000):
        press("ArrowRight")
    opened.settled()
    assert page.evaluate("document.activeElement.type") == "range"
    number = page.locator("#figures button.why").first
    number.focus()
    press("Enter")
    page.wait_for_selector("#why-body .tree")
    for _ in range(12):  # the dialog keeps the focus, and Escape gives it back
        press("Tab")
        assert page.evaluate(
            "document.activeElement === document.body || document.getElementById('why').contains(document.activeElement)"
        )
    press("Escape")
    assert number.evaluate("node => document.activeElement === node")
    page.locator("#fragment figure[data-of='/charts/roofline'] .wide .dot").first.focus()
    assert "of the step" in page.inner_text("#tip")
    press("Escape")
    assert page.is_hidden("#tip")
    page.locator("#fragment th button.sort").nth(1).focus()
    press("Space")
    assert page.locator("#fragment th[aria-sort=ascending]").count() == 1
    page.locator("[data-take=command]").focus()
    press("Enter")
    assert page.evaluate("navigator.clipboard.readText()").startswith("roofsim run gpt2-355m")
    page.locator("#theme").focus()
    press("Space")
    assert page.get_attribute("#theme", "aria-pressed") == "true"
    assert opened.said == []


def test_what_happens_is_told(tab):
    opened = tab(width=375)
    page = opened.page
    assert page.locator("#live[aria-live=polite], #problem[role=alert], #state[role=status]").count() == 3
    brief = page.locator("#brief")
    assert "step time" in brief.inner_text()
    brief.press("Enter")
    assert page.evaluate("document.activeElement.id") == "answer"
    opened.answered(lambda: page.locator("#verbs input[value=memory]").check(), "**/api/memory")
    assert "Memory: fits" in page.inner_text("#live")
    assert SMALL["scenario"]["model"] in page.title()
