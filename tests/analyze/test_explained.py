"""Explanations: every figure that the page of a result shows unfolds to what it is computed from, and the parts make the figure."""

from __future__ import annotations

import re

import pytest

import roofsim
from roofsim.web.ask import ask

DECODE = {
    "model": "llama3-8b",
    "workload": {"phase": "decode", "batch_size": 32, "context_length": 4096, "engine": "vllm"},
    "hardware": {"gpu": "h100"},
}
TRAIN = {"model": "gpt2-124m", "workload": {"phase": "train", "micro_batch_size": 8}, "hardware": {"gpu": "a100"}}
GENERATE = {
    "model": "gpt2-124m",
    "workload": {"phase": "generate", "prompt_length": 64, "output_length": 16},
    "hardware": {"gpu": "a100"},
}


@pytest.fixture(scope="module", params=[DECODE, TRAIN, GENERATE], ids=["decode", "train", "generate"])
def answered(request):
    return request.param, roofsim.run(request.param), ask("run", {"scenario": request.param})["html"]


def leaves(explanation):
    return [explanation] if not explanation.parts else [leaf for part in explanation.parts for leaf in leaves(part)]


def test_every_number_of_the_page_unfolds(answered):
    scenario, _, html = answered
    keys = set(re.findall(r'<data[^>]*data-key="/answer/([^"]+)"', html))
    figures = {".".join(step for step in key.split("/") if not step.isdigit()) for key in keys}
    classes = set(re.findall(r'<tr>\s*<td[^>]*>([^<]+)</td><td[^>]*><data[^>]*data-key="/charts/classes', html))
    assert len(figures) > 8
    assert classes
    for figure in sorted(figures | classes):
        explanation = roofsim.explain(scenario, figure)
        assert explanation.value or explanation.parts, figure
        assert explanation.parts or explanation.source or explanation.formula, figure


def test_a_step_reaches_kernels_and_sources(answered):
    scenario, _, _ = answered
    root = roofsim.explain(scenario, "step_time")
    (kernels,) = [part for one in (root, *root.parts) for part in one.parts if part.title == "kernels"]
    named = [part for part in kernels.parts if part.asked]
    assert len(named) >= 5
    for op in named:
        assert {"FLOPs", "bytes read", "bytes written"} <= {part.title for part in op.parts}
        assert [part.source for part in op.parts if part.title == "kernel"] != [""]


def test_classes_and_waits_sum_to_the_step(answered):
    scenario, result, _ = answered
    table = roofsim.ops(scenario)
    names = {row["class"] or row["name"] for row in table.rows}
    total = sum(roofsim.explain(scenario, name).seconds or 0.0 for name in names)
    assert total == pytest.approx(result.step_time, rel=1e-9)


def test_money_is_its_parts(answered):
    scenario, result, _ = answered
    price, step, units = roofsim.explain(scenario, "cost.usd_per_million_tokens").parts
    assert price.source
    assert step.title == "step_time"
    per_million = result.cost["usd_per_hour"] / 3600.0 * result.step_time / float(units.value) * 1e6
    assert per_million == pytest.approx(result.cost["usd_per_million_tokens"], rel=1e-5)


def test_categories_of_memory_list_what_is_alive():
    explanation = roofsim.explain(TRAIN, "memory.components.activations")
    assert len(explanation.parts) > 3
    assert all(re.match(r"[\d.]+ [KMG]?i?B$", part.value) for part in explanation.parts)
    capacity = roofsim.explain(TRAIN, "memory.capacity")
    assert capacity.value == "80 GiB"
    assert capacity.source


def test_a_wrong_name_is_said():
    with pytest.raises(roofsim.RoofsimError, match=r"no figure or op 'atention'.*attention"):
        roofsim.explain(DECODE, "atention")


def test_text_leaves_the_parts_of_ops_to_themselves():
    text = str(roofsim.explain(TRAIN, "step_time"))
    assert "kernels" in text
    assert "bytes read" not in text
