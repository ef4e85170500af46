"""What `need` says of a resource is what `whatif` does with the key that it names; what leads away from a target is said to."""

from __future__ import annotations

from typing import Any

import pytest

import roofsim
from roofsim.decide.resources import HOST, LINK, MEASURED
from roofsim.report import need as told
from roofsim.report.printed import text_of
from tests.surely import sure

SHARDED: dict[str, Any] = {"sharding": "fsdp", "sequence_length": 2048, "recompute": "full"}
#: GPUs -> the target of a step, and the resource and keys that what they exchange counts as.
LANES: dict[str, tuple[dict[str, Any], str, str, tuple[str, ...]]] = {
    "no links": ({"gpu": "rtx4090", "gpus": 8}, "1s", "host_link", (HOST,)),
    "bridged pairs": ({"gpu": "rtx3090", "gpus": 4}, "2.5s", "host_link", (HOST,)),
    "measured": ({"gpu": "l40s", "gpus": 8, "system": "server-8x-l40s"}, "2.5s", "intra_node_link", (MEASURED,)),
    "links": ({"gpu": "mi300x", "gpus": 8}, "340ms", "intra_node_link", (LINK,)),
}


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("case", LANES)
def test_the_factor_that_need_gives_reaches_the_target_by_the_key_that_it_names(case):
    node, target, resource, keys = LANES[case]
    answer = roofsim.need("llama3-8b", step_time=target, **node, **SHARDED)
    one = answer.resources[resource]
    assert one.keys == keys
    assert one.factor is not None
    factor = told.rounded_up(one.factor)
    after = sure(roofsim.whatif("llama3-8b", [",".join(f"{key}={factor}x" for key in keys)], **node, **SHARDED).after)
    assert answer.allowed * 0.99 < float(after.step_time) <= answer.allowed
    least = min(each.factor for each in answer.resources.values() if each.factor)
    assert (f"--set {keys[0]}={factor}x" in words(text_of(answer))) is (least == one.factor)


def test_lanes_through_the_host_are_one_resource_and_not_idle():
    answer = roofsim.need("llama3-8b", step_time="1s", gpu="rtx4090", gpus=8, **SHARDED)
    assert "intra_node_link" not in answer.resources
    assert answer.mix is not None
    assert answer.mix["host_link"] > 2.0
    assert "intra_node_link" not in answer.mix
    text = words(text_of(answer))
    idle = text.partition("More of these changes nothing:")[2].partition(".")[0]
    assert idle
    assert "host link bandwidth" not in idle
    assert "host_link.bandwidth moves both" in text


def test_other_resources_move_by_the_keys_that_they_name():
    scenario: dict[str, Any] = {"gpu": "v100", "batch": 64, "precision": "fp16-amp"}
    now = float(roofsim.run("resnet50", **scenario).step_time)
    answer = roofsim.need("resnet50", step_time=0.8 * now, **scenario)
    tried = {name: one for name, one in answer.resources.items() if one.keys and one.factor}
    assert "memory_bandwidth" in tried
    for one in tried.values():
        changes = ",".join(f"{key}={told.rounded_up(one.factor or 1.0)}x" for key in one.keys)
        after = sure(roofsim.whatif("resnet50", [changes], **scenario).after)
        assert float(after.step_time) == pytest.approx(answer.allowed, rel=2e-3)


def test_rates_that_were_measured_are_no_one_figure():
    node, target, _, _ = LANES["measured"]
    answer = roofsim.need("llama3-8b", step_time=target, **node, **SHARDED)
    assert answer.resources["intra_node_link"].value is None
    assert "priced by rates that were measured" in words(text_of(answer))


def test_gpus_that_only_cost_more_are_said_to():
    job: dict[str, Any] = {"gpu": "h100", "gpus": 8, "sharding": "fsdp", "sequence_length": 4096}
    answer = roofsim.need("llama3-8b", cost=0.1, **job)
    more = answer.gpus
    assert more is not None
    assert not more.closer
    assert more.share > float(answer.now.step_time) / answer.allowed
    text = words(text_of(answer))
    assert "More GPUs only cost more" in text
    after = sure(roofsim.whatif("llama3-8b", [more.changes], **job).after)
    assert float(after.cost["usd_per_million_tokens"]) == pytest.approx(0.1 * more.share)


def test_gpus_that_come_closer_say_so_as_before():
    answer = roofsim.need("llama3-8b", step_time="1ms", gpu="h100", gpus=8, sharding="fsdp", sequence_length=4096)
    assert answer.gpus is not None
    assert answer.gpus.closer
    assert "comes closest of all multiples" in words(text_of(answer))


def test_a_rule_of_thumb_that_no_amount_meets_does_not_sound_as_if_nothing_were_needed():
    answer = roofsim.need("llama3-8b", step_time="1s", gpu="rtx4090", gpus=8, **SHARDED)
    assert answer.rule is not None
    assert answer.rule.ours is None
    text = words(text_of(answer))
    assert "needs no amount" not in text
    assert "does not reach it, nor with any amount of that alone" in text


def test_ordinary_arithmetic_is_told_as_an_amount():
    now = float(roofsim.run("gpt2-124m", gpu="v100", precision="fp32").step_time)
    answer = roofsim.need("gpt2-124m", step_time=0.7 * now, gpu="v100", precision="fp32")
    one = answer.resources["vector_flops"]
    assert one.factor is not None
    stated = roofsim.resolve("gpt2-124m", gpu="v100", precision="fp32").gpu.vector_peak["fp32"]
    assert one.value == pytest.approx(one.factor * stated)
    assert told.amount_words(one).endswith("FLOP/s")


def test_one_day_is_one_day():
    assert "in 1 day, " in told.target_line(roofsim.need("gpt2-124m", days=1, tokens=1e9, gpu="h100"))
    assert "in 2 days" in told.target_line(roofsim.need("gpt2-124m", days=2, tokens=1e9, gpu="h100"))


def test_rounded_up_never_falls_below():
    for factor in (1.0000001, 48.70123, 123456.7, 0.0123456, 9.9996):
        assert factor <= float(told.rounded_up(factor)) < factor * 1.002
