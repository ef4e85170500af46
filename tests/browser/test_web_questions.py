"""The page's questions as they change: from verb to verb, by sliders, by what is pasted, over reloads."""

from __future__ import annotations

import pytest

from tests.browser.conftest import SMALL

pytestmark = pytest.mark.browser
DECODE = {
    "verb": "run",
    "scenario": {
        "model": "llama3-8b",
        "workload": {"phase": "decode", "batch_size": 32, "context_length": 4096, "engine": "vllm"},
        "hardware": {"gpu": "h100-sxm5-80gb"},
    },
    "options": {},
}


def small(model="gpt2-124m", gpu="a100-sxm4-80gb", **workload):
    return {"verb": "run", "scenario": {"model": model, "workload": workload, "hardware": {"gpu": gpu}}, "options": {}}


def turn_to(tab, title):
    """Choose a verb, and wait for its answer."""
    tab.page.locator("#verbs label", has_text=title).first.click()
    tab.page.wait_for_timeout(300)
    return tab.settled()


def field(page, key):
    return page.locator(f'[data-key="{key}"] :is(input, select, textarea)').first


def slider(tab, name):
    """Return a slider whose arrays are there."""
    tab.page.wait_for_selector(f"[data-slider={name}] polyline", state="attached", timeout=60_000)
    return tab.page.locator(f"[data-slider={name}] input")


def test_a_verb_takes_nothing_from_the_question_that_it_leaves(tab):
    opened = tab(DECODE)
    before = opened.page.inner_text("#figures")
    turn_to(opened, "Under load")
    assert opened.question()["scenario"]["workload"] == {
        "engine": "vllm", "request_rate": 4, "prompt_length": 1000, "output_length": 250,
    }  # fmt: skip
    turn_to(opened, "How long")
    assert opened.question()["scenario"] == DECODE["scenario"]
    assert opened.page.inner_text("#figures") == before
    assert opened.said == []


def test_what_was_stated_for_a_server_comes_back_with_it(tab):
    opened = tab(DECODE)
    turn_to(opened, "Under load")
    box = field(opened.page, "workload.prompt_length")
    box.fill("3000")
    box.press("Tab")
    opened.page.wait_for_timeout(200)
    turn_to(opened, "How long")
    assert "prompt_length" not in opened.question()["scenario"]["workload"]
    turn_to(opened, "Under load")
    assert opened.question()["scenario"]["workload"]["prompt_length"] == 3000


@pytest.mark.parametrize("model", ["resnet50", "bert-base", "sd15-unet"])
def test_models_that_make_no_tokens_are_served_too(tab, model):
    opened = tab(small(model))
    page = turn_to(opened, "Under load")
    assert page.is_hidden("#problem")
    assert "requests/s" in page.inner_text("#head")
    assert not field(page, "workload.prompt_length").is_visible()


@pytest.mark.parametrize(
    ("question", "axis"), [(small(micro_batch_size=8), "micro_batch_size"), (DECODE, "batch_size")]
)
def test_a_range_is_one_of_what_is_asked(tab, question, axis):
    page = turn_to(tab(question), "Over a range")
    assert field(page, "options.axes").input_value() == f"{axis}=1..256:x2"
    assert "9 points, 9 possible" in page.inner_text("#answer")


def test_an_error_is_all_that_stands_at_its_field(tab):
    opened = tab()
    box = field(opened.page, "workload.micro_batch_size")
    box.fill("0")
    opened.answered(lambda: box.press("Enter"))
    said = opened.page.locator("[data-key='workload.micro_batch_size'] .error").inner_text()
    assert said.strip() == "--micro-batch-size: workload.micro_batch_size: expected a number more than 0; got 0"


def test_a_preview_says_whether_it_fits_as_the_answer_does(tab):
    opened = tab(DECODE)
    batch = slider(opened, "batch")
    tile = opened.page.locator("#figures .tiles > div", has_text="memory at the peak")
    assert ", fits" in tile.inner_text()
    batch.focus()
    for _ in range(4):
        batch.press("ArrowRight")
    moved = tile.inner_text()
    assert ", does NOT fit" in moved
    opened.page.wait_for_timeout(600)
    assert opened.settled().locator("#figures .tiles > div", has_text="memory at the peak").inner_text() == moved


@pytest.mark.parametrize("written", ["1,024", "2k"])
def test_numbers_as_people_write_them_have_sliders(tab, written):
    opened = tab(small(micro_batch_size=written))
    slider(opened, "batch")
    shown = opened.page.locator("[data-slider=batch] output").inner_text()
    assert shown == {"1,024": "1,024", "2k": "2,048"}[written]


def test_changes_in_percent_have_sliders(tab):
    question = small(micro_batch_size=8)
    question["scenario"]["hardware"]["override"] = {"gpu.memory.bandwidth": "+10%"}
    opened = tab(question)
    slider(opened, "bandwidth")
    assert opened.page.locator("[data-slider=bandwidth] output").inner_text().startswith("1.1 ")


def test_cards_without_a_price_have_no_slider_of_prices(tab):
    opened = tab(small(gpu="a16-1gpu"))
    slider(opened, "batch")
    assert opened.page.is_hidden("[data-slider=price]")


def test_a_place_that_cannot_be_asked_says_why_and_is_left(tab):
    question = small(micro_batch_size=4, global_batch_size=64)
    question["scenario"]["hardware"]["gpus"] = 8
    opened = tab(question)
    batch = slider(opened, "batch")
    batch.focus()
    before = opened.page.inner_text("#figures")
    for _ in range(3):
        batch.press("ArrowRight")
    opened.page.wait_for_timeout(800)
    page = opened.settled()
    assert "cannot be asked: " in page.inner_text("#turn-note")
    assert page.is_hidden("#problem")
    size = opened.question()["scenario"]["workload"]["micro_batch_size"]
    assert size == 8
    assert page.locator("[data-slider=batch] output").inner_text() == "8"
    assert page.inner_text("#figures") != before  # that of 8


def test_each_slider_is_a_step_of_the_way_back(tab):
    opened = tab()
    for name in ("bandwidth", "compute"):
        one = slider(opened, name)
        one.focus()
        one.press("ArrowRight")
        opened.page.wait_for_timeout(700)
        opened.settled()
    assert set(opened.question()["scenario"]["hardware"]["override"]) == {"gpu.memory.bandwidth", "gpu.peak"}
    opened.answered(opened.page.go_back)
    assert set(opened.question()["scenario"]["hardware"]["override"]) == {"gpu.memory.bandwidth"}


def test_a_command_of_a_server_keeps_the_card_and_is_served(tab):
    opened = tab(small(gpu="h100-sxm5-80gb"))
    page = opened.page
    page.locator("#paste summary").click()
    page.locator("#paste textarea").fill(
        "vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 4 --port 8000 --max-model-len 4096"
    )
    page.get_by_role("button", name="Read it").click()
    page.wait_for_timeout(500)
    opened.settled()
    question = opened.question()
    assert question["verb"] == "serve"
    assert question["scenario"]["hardware"] == {"gpu": "h100-sxm5-80gb"}
    assert "4 x h100-sxm5-80gb" in page.inner_text("#head")
    assert page.locator("#paste-notes li").all_inner_texts() == [
        "--port: changes neither time nor memory", "--max-model-len: changes neither time nor memory",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("written", "first"),
    [
        ("Llama-3-8B", "llama3-8b"), ("gpt 2", "gpt2-124m"), ("meta-llama/Meta-Llama-3-8B", "llama3-8b"),
        ("ResNet 50", "resnet50"),
    ],
)  # fmt: skip
def test_models_are_found_as_people_write_them(tab, written, first):
    page = tab().page
    box = field(page, "model")
    box.click()
    box.fill(written)
    assert page.locator("[data-key=model] [role=option] span").first.inner_text() == first


def test_what_is_not_asked_yet_is_in_the_link(tab):
    opened = tab(SMALL | {"verb": "whatif", "options": {"changes": ["memory.bandwidth=2x"]}})
    box = field(opened.page, "workload.micro_batch_size")
    box.fill("32")
    box.press("Tab")
    opened.page.wait_for_timeout(300)
    assert opened.page.is_visible("#stale")
    opened.page.reload()
    page = opened.settled()
    assert field(page, "workload.micro_batch_size").input_value() == "32"
    opened.page.go_back()
    opened.page.wait_for_timeout(300)
    assert field(opened.settled(), "workload.micro_batch_size").input_value() == "8"


def test_the_way_back_takes_what_was_being_typed(tab):
    opened = tab()
    box = field(opened.page, "workload.micro_batch_size")
    box.fill("16")
    opened.answered(lambda: box.press("Enter"))
    box.fill("169")
    opened.page.go_back()
    opened.page.wait_for_timeout(300)
    assert field(opened.settled(), "workload.micro_batch_size").input_value() == "8"


def test_a_link_to_an_error_has_a_heading(tab):
    page = tab(small(gpu="zz9")).page
    assert page.locator("h1").all_inner_texts() == ["This cannot be answered"]


def test_a_count_of_cards_that_is_none_is_marked(tab):
    opened = tab(SMALL | {"verb": "compare", "options": {"gpus": ["a100"]}})
    page = opened.page
    count = page.locator("[data-key='options.gpus'] .count")
    count.fill("abc")
    cards = page.locator("[data-key='options.gpus'] [role=combobox]")
    cards.fill("l4")
    cards.press("Enter")
    assert count.get_attribute("aria-invalid") == "true"
    assert page.locator("[data-key='options.gpus'] .chips li").count() == 1


@pytest.mark.parametrize(
    ("verb", "options", "figure", "least"),
    [
        ("memory", {}, "memory.components.parameters", 8),
        ("fit", {}, "memory.peak", 2),
        ("timeline", {}, "step_time", 1),
    ],
)
def test_numbers_of_answers_that_hold_no_result_unfold_too(tab, verb, options, figure, least):
    opened = tab(SMALL | {"verb": verb, "options": options})
    page = opened.page
    buttons = page.locator("button.why")
    assert buttons.count() >= least
    opened.answered(buttons.first.click, "**/api/explain")
    page.locator("#why-body .tree").first.wait_for()
    assert figure in page.inner_text("#why-title")
    assert opened.said == []
