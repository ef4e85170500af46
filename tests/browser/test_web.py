"""The page in a real Chromium against the real local server: what people do with it, what goes wrong, and who may use it."""

from __future__ import annotations

import copy
import json
import re
import shlex
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from roofsim.web.catalog import catalog
from tests.browser.conftest import HOSTILE, ROOT, SMALL, linked

pytestmark = pytest.mark.browser
CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
ALERT = "<img src=x onerror=\"document.title='broken'\">"
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_attention_heads": 8,
    "num_hidden_layers": 4,
    "num_key_value_heads": 8,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def asking(verb="run", options=None, **sections):
    """Return the small question with other parts."""
    question = copy.deepcopy(SMALL) | {"verb": verb, "options": options or {}}
    for section, values in sections.items():
        question["scenario"][section] = (
            values if isinstance(values, str) else question["scenario"].get(section, {}) | values
        )
    return question


def field(page, key):
    return page.locator(f'[data-key="{key}"] :is(input, select, textarea)').first


def commit(tab, key, text):
    """Write into a field and leave it by Enter."""
    field(tab.page, key).fill(text)
    return tab.answered(lambda: field(tab.page, key).press("Enter"))


def roofsim(*words):
    """Return what a command prints as JSON, or what it says of an error."""
    done = subprocess.run(
        [sys.executable, "-m", "roofsim", *words], capture_output=True, text=True, cwd=ROOT, check=False
    )
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr


# -- looks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [375, 768, 1440, 3840])
def test_the_page_is_whole_and_readable(tab, width):
    opened = tab(width=width)
    page = opened.page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#head .verdict").first.inner_text().startswith("Limited by")
    for group in page.locator("details > summary").all():
        if group.is_visible():
            group.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("document.getElementById('tip').hidden = true")
    for colours in ("light", "dark"):
        page.emulate_media(color_scheme=colours)
        assert page.evaluate(CONTRAST) == [], colours
    for key in ("model", "hardware.gpu", "workload.phase"):
        assert field(page, key).is_visible(), key
    assert opened.said == []


@pytest.mark.parametrize("width", [375, 1280])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("state", ["wrong", "list", "dialog", "paste"])  # answers are looked at in test_access.py
def test_axe_finds_nothing(tab, state, width, dark):
    page = tab(SMALL, width=width, dark=dark).page
    if state == "wrong":
        field(page, "hardware.gpu").fill("a101")
        field(page, "hardware.gpu").press("Enter")
        page.wait_for_selector("#problem:not([hidden])")
    elif state == "list":
        field(page, "model").click()
    elif state == "dialog":
        page.locator("button.why").first.click()
        page.wait_for_selector("#why-body .tree")
    elif state == "paste":
        page.locator("#paste > summary").click()
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    violations = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [(one["id"], [node["html"][:120] for node in one["nodes"]]) for one in violations["violations"]] == []


def test_colours_follow_the_button_and_are_remembered(tab):
    opened = tab()
    page = opened.page
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.click("#theme")
    dark = page.evaluate(paper)
    assert dark != light
    assert page.get_attribute("#theme", "aria-pressed") == "true"
    page.reload()
    assert page.evaluate(paper) == dark


def test_nothing_moves_for_those_who_asked_for_that(tab):
    opened = tab(None, reduced_motion="reduce")
    page = opened.page
    page.route("**/api/run", lambda route: None)
    page.goto(opened.address + linked(SMALL))
    page.wait_for_selector("#progress:not([hidden])")
    assert page.evaluate("document.getAnimations().length") == 0


# -- asking ---------------------------------------------------------------------------------------------------------


def test_the_first_page_answers_an_example(tab):
    opened = tab("")
    assert opened.page.locator("#head h1").inner_text().startswith(opened.question()["scenario"]["model"])


def test_a_model_is_found_by_typing_and_by_filters(tab):
    opened = tab()
    page = opened.page
    box = field(page, "model")
    box.click()
    box.fill("llama3 8b")
    assert box.get_attribute("aria-expanded") == "true"
    names = page.locator('[data-key="model"] [role=option] span').all_inner_texts()
    known = {row["name"]: [row["name"], *row["aliases"]] for row in catalog()["models"]}
    assert names[0] == "llama3-8b"
    assert all(any("llama3" in one and "8b" in one for one in known[name]) for name in names)
    box.press("ArrowDown")
    active = box.get_attribute("aria-activedescendant")
    chosen = page.locator(f"#{active} span").inner_text()
    opened.answered(lambda: box.press("Enter"))
    assert box.input_value() == chosen == opened.question()["scenario"]["model"]
    page.select_option('[data-key="model"] select >> nth=0', "resnet")
    listed = page.locator('[data-key="model"] [role=option] small').all_inner_texts()
    assert listed
    assert all("resnet" in about for about in listed)
    page.select_option('[data-key="model"] select >> nth=1', label="Over 100 B")
    assert page.locator('[data-key="model"] [role=option]').count() == 0
    box.press("Escape")
    assert box.get_attribute("aria-expanded") == "false"
    assert box.input_value() == chosen


@pytest.mark.parametrize(
    ("verb", "says"),
    [
        ("fit", "fits"),
        ("compare", "Fastest"),
        ("plan", "ms"),
        ("serve", "request"),
        ("whatif", "ms"),
        ("sweep", "points"),
        ("memory", "GiB"),
        ("timeline", "step"),
        ("explain", "step_time"),
        ("advise", "%"),
        ("need", "tokens"),
    ],
)
def test_every_question_is_asked_from_its_tab(tab, verb, says):
    opened = tab(asking(workload={"engine": "pytorch-eager"}))  # which layouts: those of one engine
    page = opened.page
    opened.answered(lambda: page.locator(f"#verbs input[value={verb}]").check(), f"**/api/{verb}")
    assert page.is_hidden("#problem"), page.inner_text("#problem")
    assert says in page.inner_text("#shown")
    assert opened.question()["verb"] == verb
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert opened.said == []


def test_a_phase_takes_its_own_sizes_along(tab):
    opened = tab()
    page = opened.page
    for phase, key in (("decode", "batch_size"), ("train", "micro_batch_size")):
        opened.answered(lambda phase=phase: page.locator(f".segments input[value={phase}]").check())
        work = opened.question()["scenario"]["workload"]
        assert work["phase"] == phase
        assert work[key] == 8
        assert {"batch_size", "micro_batch_size"} - {key} & set(work) == set()


def test_an_engine_that_cannot_do_what_is_chosen_is_put_aside(tab):
    opened = tab("")  # what the page asks first: an engine that serves
    page = opened.page
    engine = field(page, "workload.engine")
    assert engine.input_value() == "vllm"
    opened.answered(lambda: page.locator(".segments input[value=train]").check())
    assert page.is_hidden("#problem"), page.inner_text("#problem")
    assert engine.input_value() == ""
    assert engine.locator("option[value=vllm]").is_disabled()
    assert engine.locator("option[value=megatron-core]").is_enabled()
    opened.answered(lambda: engine.select_option("megatron-core"))
    opened.answered(lambda: page.locator("#verbs input[value=serve]").check(), "**/api/serve")
    assert page.is_hidden("#problem"), page.inner_text("#problem")
    page.locator("#verbs input[value=run]").check()
    opened.settled()
    assert engine.input_value() == "megatron-core"  # and comes back


def test_cards_come_with_counts_and_go(tab):
    opened = tab(asking("compare", {"gpus": ["a100"]}))
    page = opened.page
    page.fill(".adder .count", "8")
    box = field(page, "options.gpus")
    add = page.locator(".adder input[role=combobox]")
    add.fill("h100-sxm5-80gb")
    opened.answered(lambda: add.press("Enter"))
    assert opened.question()["options"]["gpus"] == ["a100", "8xh100-sxm5-80gb"]
    assert add.input_value() == ""
    opened.answered(lambda: page.get_by_role("button", name="Remove a100").click())
    assert opened.question()["options"]["gpus"] == ["8xh100-sxm5-80gb"]
    assert box.is_visible()


def test_the_card_of_a_run_is_put_aside_while_cards_are_compared(tab):
    opened = tab()
    page = opened.page
    opened.answered(lambda: page.locator("#verbs input[value=compare]").check(), "**/api/compare")
    assert page.locator('[data-key="hardware.gpu"]').is_hidden()
    assert "gpu" not in opened.question()["scenario"].get("hardware", {})
    assert page.is_hidden(".rest")
    page.locator("#verbs input[value=run]").check()
    opened.settled()
    assert field(page, "hardware.gpu").input_value() == SMALL["scenario"]["hardware"]["gpu"]
    page.context.close()
    linked_page = tab(asking("compare", {"gpus": ["a100"]})).page  # a link may name one: the cards stand instead of it
    assert linked_page.is_hidden(".rest")


def test_no_heading_stands_alone(tab):
    for verb, options in (("timeline", {}), ("plan", {"gpus": 2}), ("run", {}), ("memory", {})):
        opened = tab(asking(verb, options, workload={"engine": "pytorch-eager"}))
        sections = opened.page.locator("#fragment section")
        assert sections.count() > 1
        empty = "all => all.filter((one) => one.children.length < 2).map((one) => one.textContent)"
        assert opened.page.eval_on_selector_all("#fragment section:not(:has(> details))", empty) == [], verb
        opened.page.context.close()


def test_the_table_of_cards_sorts(tab):
    page = tab(asking("compare", {"gpus": ["a100", "v100", "h100"]})).page
    table = page.locator("#fragment table").first
    rows = "[...document.querySelector('#fragment table').tBodies[0].rows]"
    steps = f"{rows}.map((row) => Number(row.cells[1].querySelector('data').value))"
    head = table.locator("th").nth(1)
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    rising = page.evaluate(steps)
    assert rising == sorted(rising)
    head.get_by_role("button").press("Enter")
    assert page.evaluate(steps) == rising[::-1]


# -- sliders --------------------------------------------------------------------------------------------------------


def test_a_slider_looks_up_what_the_exact_answer_is_then(tab):
    opened = tab()
    page = opened.page
    page.wait_for_selector("[data-slider=price] polyline")
    slider = page.locator("[data-slider=bandwidth] input")
    tile = page.locator("#figures .tiles dd.big data").first
    before = tile.inner_text()
    with page.expect_response("**/api/run", timeout=60_000) as asked:
        slider.press("End")
        moving = tile.inner_text()
        note = page.inner_text("#turn-note")
    opened.settled()
    assert asked.value.ok
    assert moving != before
    assert "Bandwidth 4" in note
    assert slider.get_attribute("aria-valuetext") == "4 \N{MULTIPLICATION SIGN}"
    exact = float(tile.get_attribute("value"))
    number, unit = moving.split()
    assert float(number) * {"s": 1.0, "ms": 1e-3, "us": 1e-6}[unit] == pytest.approx(exact, rel=5e-3)
    assert opened.question()["scenario"]["hardware"]["override"] == {"gpu.memory.bandwidth": "4x"}
    assert page.evaluate("document.activeElement.type") == "range"


def test_what_no_field_shows_is_named_and_can_be_taken_back(tab):
    opened = tab(asking(hardware={"override": {"gpu.memory.bandwidth": "2x"}}))
    page = opened.page
    assert "gpu.memory.bandwidth: 2x" in page.inner_text(".rest")
    opened.answered(lambda: page.get_by_role("button", name="Remove gpu.memory.bandwidth").click(), "**/api/run")
    assert "override" not in opened.question()["scenario"]["hardware"]
    assert page.is_hidden(".rest")


# -- pictures and explanations --------------------------------------------------------------------------------------


def test_what_is_pointed_at_says_what_it_is(tab):
    page = tab().page
    page.hover("#fragment figure[data-of='/charts/roofline'] .wide .dot >> nth=0")
    assert "of the step" in page.inner_text("#tip")
    drawing = page.locator("#fragment figure[data-of='/charts/memory'] .wide svg").first
    drawing.scroll_into_view_if_needed()
    box = drawing.bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.7 * box["height"])
    alive = page.inner_text("#tip")
    assert "allocated" in alive
    assert re.search(r"parameters [\d.]+ [KMG]iB", alive)
    page.keyboard.press("Escape")
    assert page.is_hidden("#tip")


def test_maps_and_timelines_say_what_is_pointed_at(tab):
    axes = ["micro_batch_size=1,2,4", "memory.bandwidth=1x,2x"]
    for verb, options, mark, said in (
        ("sweep", {"axes": axes}, "#fragment figure .wide [data-tip] >> nth=0", "bandwidth 1x"),
        ("compare", {"gpus": ["a100", "h100"]}, "figure[data-of='/charts/map'] .wide [data-tip] >> nth=0", "h100"),
        ("timeline", {}, "figure[data-of='/charts/timeline'] .wide [data-tip] >> nth=0", "from"),
    ):
        opened = tab(asking(verb, options, workload={"engine": "pytorch-eager"}))
        opened.page.hover(mark)
        assert said in opened.page.inner_text("#tip"), verb
        assert opened.said == []
        opened.page.context.close()


def test_every_number_of_a_comparison_and_a_plan_unfolds_for_its_own_card_and_layout(tab):
    for verb, options, number in (("compare", {"gpus": ["a100", "h100"]}, 6), ("plan", {"gpus": 2}, 20)):
        opened = tab(asking(verb, options, workload={"engine": "pytorch-eager"}))
        page = opened.page
        buttons = page.locator("#fragment table button.why:has(data[data-key$=step_time])")
        assert page.locator("button.why").count() >= number
        last = buttons.last
        stated = float(last.locator("data").get_attribute("value"))
        last.click()
        page.wait_for_selector("#why-body .tree")
        unfolded = page.locator("#why-body .tree data[data-key='/answer/seconds']").first.get_attribute("value")
        assert float(unfolded) == pytest.approx(stated, rel=1e-9)
        assert opened.said == []
        page.context.close()


def test_a_number_unfolds_into_where_it_comes_from(tab):
    page = tab().page
    number = page.locator("button.why").first
    number.focus()
    number.press("Enter")
    page.wait_for_selector("#why-body .tree")
    shown = page.inner_text("#why-body")
    assert "kernels" in shown
    deepest = page.locator("#why-body .tree summary")
    for place in range(deepest.count()):
        if deepest.nth(place).is_visible() and not deepest.nth(place).evaluate("node => node.parentElement.open"):
            deepest.nth(place).click()
    assert "source:" in page.locator("#why-body .from").first.evaluate(
        "node => getComputedStyle(node, '::before').content"
    )
    page.keyboard.press("Escape")
    assert page.is_hidden("#why")
    assert number.evaluate("node => document.activeElement === node")


# -- what is wrong --------------------------------------------------------------------------------------------------


def test_a_typo_is_marked_at_its_field_with_the_words_of_the_command_line(tab):
    opened = tab()
    page = opened.page
    commit(opened, "hardware.gpu", "a101")
    box = field(page, "hardware.gpu")
    assert box.get_attribute("aria-invalid") == "true"
    error = page.locator(f"#{box.get_attribute('aria-describedby')}")
    said = roofsim("run", "gpt2-124m", "--gpu", "a101")
    message = error.locator("p").first.inner_text().splitlines()[0]
    assert message.startswith("--gpu: hardware.gpu: unknown gpu 'a101'. Did you mean 'a10', 'a10g', 'a100'")
    assert message.removeprefix("--gpu: ") in " ".join(said.split())
    assert page.locator("#problem[role=alert]").is_visible()
    opened.answered(lambda: error.get_by_role("button", name="a100", exact=True).click())
    assert opened.question()["scenario"]["hardware"]["gpu"] == "a100"
    assert box.get_attribute("aria-invalid") is None
    assert page.is_hidden("#problem")


def test_everything_that_is_wrong_is_marked_at_once(tab):
    opened = tab(asking(workload={"micro_batch_size": "eight", "precision": "bf17"}, hardware={"gpu": "a101"}))
    page = opened.page
    said = page.inner_text("#problem")
    for key, message in (
        ("workload.micro_batch_size", "expected a whole number; got 'eight'"),
        ("hardware.gpu", "unknown gpu 'a101'"),
    ):
        box = field(page, key)
        assert box.get_attribute("aria-invalid") == "true", key
        assert message in page.locator(f"[data-key='{key}'] .error").inner_text()
        assert message in said
    field(page, "workload.precision").select_option("bf16")
    commit(opened, "workload.micro_batch_size", "8")
    commit(opened, "hardware.gpu", "a100")
    assert page.is_hidden("#problem"), page.inner_text("#problem")
    assert page.locator("[aria-invalid]").count() == 0


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("workload.micro_batch_size", "eight"),
        ("workload.micro_batch_size", "0"),
        ("workload.micro_batch_size", "-1"),
        ("workload.micro_batch_size", "1e400"),
        ("workload.sequence_length", "99999999999999999999"),
        ("hardware.gpus", "1.5"),
        ("model", "gpt2-125m"),
    ],
)
def test_wrong_values_are_refused_at_their_field(tab, key, text):
    opened = tab()
    commit(opened, key, text)
    if opened.page.is_visible("#problem"):
        assert field(opened.page, key).get_attribute("aria-invalid") == "true", opened.page.inner_text("#problem")
    else:  # a huge length is answered: it does not fit
        assert "does NOT fit" in opened.page.inner_text("#fragment")
    assert opened.said == []


def test_a_typo_in_the_cards_is_mended_by_a_press(tab):
    opened = tab(asking("compare", {"gpus": ["a100", "h101"]}))
    page = opened.page
    near = page.locator('[data-key="options.gpus"] .near button').first
    meant = near.inner_text()
    opened.answered(near.click)
    assert opened.question()["options"]["gpus"] == ["a100", meant]


def test_what_is_wrong_with_an_option_is_marked_at_it(tab):
    for verb, option, text in (
        ("run", "tokens", "many"),
        ("need", "step_time", "soon"),
        ("whatif", "changes", "memory.bandwith=2x"),
    ):
        opened = tab(asking(verb, {option: [text] if option == "changes" else text}))
        box = field(opened.page, f"options.{option}")
        assert box.get_attribute("aria-invalid") == "true", opened.page.inner_text("#problem")
        opened.page.context.close()


def test_a_whole_job_at_ones_own_price(tab):
    opened = tab()
    page = opened.page
    page.get_by_text("The whole job, and prices").click()
    commit(opened, "options.tokens", "1e9")
    commit(opened, "hardware.override.gpu.price.hourly", "2 USD/h")
    job = page.locator("section", has=page.get_by_role("heading", name="The whole job"))
    assert "USD by your own price" in job.inner_text()
    page.click("[data-take=command]")
    command = page.evaluate("navigator.clipboard.readText()")
    assert "--tokens 1000000000" in command
    printed = roofsim(*shlex.split(command)[1:], "--json")
    assert printed["job"]["usd"][1] == pytest.approx(printed["job"]["gpu_hours"][1] * 2.0)
    assert (
        f"{printed['job']['usd'][1]:,.0f}" in job.inner_text() or f"{printed['job']['usd'][1]:.2f}" in job.inner_text()
    )
    assert opened.said == []


def test_what_is_alive_at_the_cursor_stands_in_the_memory_tab(tab):
    page = tab(asking("memory")).page
    drawing = page.query_selector("figure[data-of='/charts/memory'] svg")
    drawing.scroll_into_view_if_needed()
    box = drawing.bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"])
    tip = page.inner_text("#tip")
    assert "activations" in tip
    assert "GiB" in tip or "MiB" in tip


# -- paste and drop -------------------------------------------------------------------------------------------------


def paste(opened, text):
    page = opened.page
    if not page.locator("#paste").evaluate("node => node.open"):
        page.locator("#paste > summary").click()
    page.locator("#paste textarea").evaluate("(node, text) => { node.value = text; }", text)
    with page.expect_response("**/api/read", timeout=60_000):
        page.get_by_role("button", name="Read it").click()
    page.wait_for_timeout(300)
    return opened.settled()


def test_a_configuration_is_pasted(tab):
    opened = tab()
    page = paste(opened, json.dumps(CONFIG))
    assert page.is_hidden("#paste-said"), page.inner_text("#paste-said")
    assert opened.question()["scenario"]["hardware"] == SMALL["scenario"]["hardware"]
    assert isinstance(opened.question()["scenario"]["model"], dict)
    assert page.is_hidden("#problem")


def test_a_scenario_is_pasted_and_the_present_one_edited(tab):
    opened = tab()
    page = paste(
        opened, yaml.safe_dump({"model": "gpt2-124m", "hardware": {"gpu": "v100"}, "workload": {"precision": "fp16"}})
    )
    assert field(page, "hardware.gpu").input_value() == "v100"
    page.get_by_role("button", name="Edit the present question").click()
    text = page.locator("#paste textarea").input_value()
    assert yaml.safe_load(text)["hardware"]["gpu"] == "v100"
    paste(opened, text.replace("v100", "t4"))
    assert field(page, "hardware.gpu").input_value() == "t4"


@pytest.mark.parametrize("text", ["model: [1,", "\x00\x01", "{}", "model: gpt2-124m\nworkloda: {}"])
def test_what_cannot_be_read_is_said_below_what_was_pasted(tab, text):
    opened = tab()
    page = paste(opened, text)
    wrong = page.is_visible("#paste-said") or page.is_visible("#problem")
    assert wrong
    assert opened.said == []


def test_a_megabyte_is_pasted(tab):
    opened = tab()
    page = paste(opened, json.dumps(CONFIG | {"comment": "x" * 2**20}))
    assert page.is_visible("#paste-said") or page.is_hidden("#problem")
    assert page.locator("#ask").is_enabled()
    commit(opened, "workload.micro_batch_size", "4")
    assert opened.said == []


def test_more_than_the_server_reads_is_said_below_what_was_pasted(tab):
    opened = tab()
    page = paste(opened, json.dumps(CONFIG | {"weights": "x" * 6 * 2**20}))
    assert "without weights" in page.inner_text("#paste-said")
    commit(opened, "workload.micro_batch_size", "4")
    assert page.is_hidden("#problem")
    assert [one for one in opened.said if "413" not in one] == []


def test_a_file_is_dropped(tab):
    opened = tab()
    page = opened.page
    held = page.evaluate_handle(
        "(text) => { const data = new DataTransfer(); data.items.add(new File([text], 'config.json')); return data; }",
        json.dumps(CONFIG),
    )
    page.dispatch_event("body", "dragover", {"dataTransfer": held})
    assert page.is_visible("#dropzone")
    with page.expect_response("**/api/read"):
        page.dispatch_event("body", "drop", {"dataTransfer": held})
    page.wait_for_timeout(300)
    opened.settled()
    assert page.is_hidden("#dropzone")
    assert isinstance(opened.question()["scenario"]["model"], dict)


# -- hostile names --------------------------------------------------------------------------------------------------

SIZES = {"family": "decoder", "num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100}


@pytest.mark.parametrize(
    "name", [HOSTILE, ALERT, "{{ 7*7 }}", "\u202egpj.exe"], ids=["script", "image", "template", "turned"]
)
def test_hostile_names_are_text(tab, name):
    opened = tab(asking() | {"scenario": {"model": {**SIZES, "name": name}, "hardware": {"gpu": "a100"}}})
    page = opened.page
    assert page.title() != "broken"
    assert "49" not in page.inner_text("#head h1")
    assert page.locator("#answer :is(script, img, iframe, object)").count() == 0
    assert page.locator("#answer [onerror], #answer [onload], #answer [style]").count() == 0
    assert opened.said == []


@pytest.mark.parametrize("place", ["model", "gpu", "phase", "verb", "option"])
def test_hostile_links_are_text(tab, place):
    question = asking()
    if place == "model":
        question["scenario"]["model"] = ALERT
    elif place == "gpu":
        question["scenario"]["hardware"]["gpu"] = ALERT
    elif place == "phase":
        question["scenario"]["workload"]["phase"] = ALERT
    elif place == "verb":
        question["verb"] = ALERT
    else:
        question = asking("compare", {"gpus": [ALERT]})
    opened = tab(question)
    assert "<img" in opened.page.inner_text("#problem")
    assert opened.page.title() != "broken"
    assert opened.page.locator("img").count() == 0
    assert opened.said == []


@pytest.mark.parametrize("held", ["", "%%%", "e30", "~AAAA", "W10", "bnVsbA"])
def test_links_that_cannot_be_read_say_so(tab, held):
    opened = tab(f"#scenario={held}")
    page = opened.page
    assert "The link cannot be read" in page.inner_text("#problem")
    opened.answered(lambda: page.get_by_role("button", name="Start with an example").click())
    assert page.is_visible("#shown")
    assert opened.said == []
