"""Laws of the verdict: what binds has the largest elasticity, growing it helps most, the headroom is where another takes over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from roofsim.analyze.bottleneck import bottleneck
from roofsim.analyze.sensitivity import elasticities
from roofsim.api import resolve
from roofsim.cost.scales import Scales
from roofsim.errors import NoDataError, SpecError
from roofsim.evaluate import evaluate
from tests.scenarios import FAMILIES

#: Elasticities that differ by less are tied.
TIE = 0.02
#: How near to a factor its two sides are looked at: curves are smooth there, or jump at a corner.
BESIDE = 1.005

GROUPS = {
    "compute": ("tensor_flops", "vector_flops", "unit_rate"),
    "memory_bandwidth": ("memory_bandwidth",),
    "power": ("power",),
    "intra_node_link": ("intra_node_link",),
    "inter_node_link": ("inter_node_link",),
    "host_link": ("host_link",),
    "host_memory": ("host_memory",),
    "host_compute": ("host_compute",),
    "launch": ("launch_rate", "host_issue_rate"),
    "storage": ("storage",),
}

CARDS = ("v100", "a100", "a100-sxm4-40gb", "h100", "h200", "b200", "rtx3060", "rtx4090", "rtx5090", "l4", "mi300x")
CLUSTERED = ("a100", "h100", "h200", "b200", "mi300x")


@dataclass(frozen=True)
class Step:
    """A step whose rates and bubble one can change."""

    evaluation: Any

    def seconds(self, group=None, factor=1.0, beside=None, trifle=0.0):
        """Return the step with more of one resource, and a trifle more of another."""
        scales, shorter = dict.fromkeys(Scales.resources(), 1.0), 1.0
        for name, by in ((group, factor), (beside, float(np.exp(trifle)))):
            if name == "bubble":
                shorter *= by
            for rate in GROUPS.get(name, ()):
                scales[rate] *= by
        step = self.evaluation.reprice(Scales(**scales))
        return step.step - step.resources.get("bubble", 0.0) * (1.0 - 1.0 / shorter)

    def worth(self, group=None, factor=1.0):
        """Return what each resource is worth where there is so much more of one: d ln(step) / d ln(resource), positive."""
        h = 1e-5
        return {
            name: float(
                np.log(self.seconds(group, factor, name, -h)) - np.log(self.seconds(group, factor, name, h))
            ) / (2.0 * h)
            for name in (*GROUPS, "bubble")
        }  # fmt: skip


def obey(scenario):
    """Hold the verdict of a scenario to its laws."""
    try:
        evaluation = evaluate(resolve(scenario))
    except (SpecError, NoDataError):
        assume(False)
    verdict, step = bottleneck(evaluation.step, evaluation.reprice), Step(evaluation)
    worth = step.worth()
    binds_by_elasticity(verdict, worth, evaluation)
    growing_it_helps_most(verdict, worth, step)
    headroom_is_where_another_takes_over(verdict, step)


def binds_by_elasticity(verdict, worth, evaluation):
    assert worth[verdict.bound] >= max(worth.values()) - TIE
    assert verdict.runner_up != verdict.bound
    given_out = elasticities(evaluation.reprice)
    assert verdict.elasticity == pytest.approx(given_out, abs=1e-9)
    for name, rates in GROUPS.items():
        assert -sum(given_out[rate] for rate in rates) == pytest.approx(worth[name], abs=TIE)
    if evaluation.resolved.gpus == 1:  # no messages, whose latency no rate shortens
        assert sum(given_out.values()) == pytest.approx(-1.0, abs=2e-3)
        shares = {name: float(seconds) / evaluation.step.step for name, seconds in evaluation.step.resources.items()}
        near = TIE + worth["power"] / 10.0  # what power holds back is taken from all parts alike
        own = worth | {
            "memory_bandwidth": worth["memory_bandwidth"] - given_out["latency"]
        }  # blocks that start to read
        assert all(share == pytest.approx(own[name], abs=near) for name, share in shares.items())


def growing_it_helps_most(verdict, worth, step):
    """Doubling it does, and where another takes over before, growing it until then."""
    others = [name for name in worth if name != verdict.bound]
    if worth[verdict.bound] - max(worth[name] for name in others) < TIE:
        return
    factor = 2.0 if verdict.headroom is None else min(2.0, verdict.headroom)
    now, mine = step.seconds(), step.seconds(verdict.bound, factor)
    assert mine < now
    assert all(mine <= step.seconds(name, factor) + 1e-6 * now for name in others)


def headroom_is_where_another_takes_over(verdict, step):
    if verdict.headroom is None:
        far = step.worth(verdict.bound, 1e6)
        assert far[verdict.bound] >= max(far.values()) - 1e-6
        return
    assert verdict.headroom >= 1.0
    before, behind = (step.worth(verdict.bound, max(verdict.headroom * side, 1.0)) for side in (1.0 / BESIDE, BESIDE))
    assert before[verdict.bound] >= max(before.values()) - TIE
    assert behind[verdict.runner_up] >= max(behind.values()) - TIE
    at = step.worth(verdict.bound, verdict.headroom)
    corner = abs(before[verdict.bound] - behind[verdict.bound]) > TIE
    assert corner or at[verdict.bound] == pytest.approx(at[verdict.runner_up], abs=TIE)


@st.composite
def on_one_card(draw):
    """Draw a step of any family on one card."""
    case = FAMILIES[draw(st.sampled_from(sorted(FAMILIES)))]
    card = draw(st.sampled_from(CARDS))
    precision = draw(st.sampled_from(["fp32", "fp16", "fp16-amp"] + ["bf16"] * (card != "v100")))
    workload = case["workload"] | {
        "phase": draw(st.sampled_from(["train", "forward"])),
        "micro_batch_size": draw(st.sampled_from([1, 4, 32, 128])),
        "precision": precision,
        "engine": draw(st.sampled_from(["pytorch-eager", "pytorch-compile", "huggingface"])),
    }
    return {"model": case["model"], "workload": workload, "hardware": {"gpu": card}}


@st.composite
def on_many(draw):
    """Draw a training step of a language model on several cards."""
    parallel = {name: draw(st.sampled_from(degrees)) for name, degrees in LAYOUT.items()}
    micro = draw(st.sampled_from([1, 2, 4]))
    workload = {
        "phase": "train",
        "sequence_length": draw(st.sampled_from([512, 2048, 8192])),
        "micro_batch_size": micro,
        "global_batch_size": micro * parallel["data"] * draw(st.sampled_from([1, 2, 4, 16])),
        "precision": "bf16",
        "engine": draw(st.sampled_from(["megatron-core", "pytorch-fsdp", "torchtitan", "deepspeed"])),
    }
    hardware = {
        "gpu": draw(st.sampled_from(CLUSTERED)),
        "gpus": parallel["tensor"] * parallel["pipeline"] * parallel["data"],
        "jitter": draw(st.sampled_from([0.0, 0.0, 0.02, 0.3])),
    }
    model = draw(st.sampled_from(["llama3-8b", "gpt3-1.3b", "mixtral-8x7b", "llama3-70b"]))
    return {"model": model, "workload": workload, "parallel": parallel, "hardware": hardware}


LAYOUT: dict[str, Any] = {
    "tensor": [1, 2, 4, 8],
    "pipeline": [1, 2, 4],
    "data": [1, 2, 8, 32],
    "sharding": ["none", "none", "optimizer", "full"],
    "schedule": ["gpipe", "1f1b"],
}

#: Engines of inference, with a precision that each loads.
SERVED = (
    ("vllm", "bf16"), ("vllm", "fp8"), ("sglang", "fp16"), ("tensorrt-llm", "fp16"), ("llama.cpp", "q4_k_m"),
    ("llama.cpp", "q8_0"), ("exllamav2", "exl2-4.0bpw"), ("huggingface", "fp16"), ("fastertransformer", "fp16"),
    ("autoawq", "int4"),
)  # fmt: skip


@st.composite
def in_inference(draw):
    """Draw a pass of inference, on one card or two."""
    (engine, precision), phase = draw(st.sampled_from(SERVED)), draw(st.sampled_from(["prefill", "decode", "generate"]))
    lengths = {
        "prefill": {"prompt_length": draw(st.sampled_from([16, 512, 4096]))},
        "decode": {"context_length": draw(st.sampled_from([16, 512, 8192]))},
        "generate": {"prompt_length": 512, "output_length": draw(st.sampled_from([4, 128]))},
    }[phase]
    tensor = 1 if engine in ("llama.cpp", "exllamav2", "autoawq") else draw(st.sampled_from([1, 1, 2]))
    card = draw(st.sampled_from(CLUSTERED if tensor > 1 or precision in ("bf16", "fp8") else CARDS))
    workload = {"phase": phase, "batch_size": draw(st.sampled_from([1, 8, 64, 256])), "engine": engine}
    model = draw(st.sampled_from(["gpt2-124m", "llama3-8b", "llama3-70b"]))
    return {
        "model": model,
        "workload": workload | {"precision": precision} | lengths,
        "hardware": {"gpu": card, "gpus": tensor},
        "parallel": {"tensor": tensor},
    }


KINDS = {"one card": on_one_card(), "many": on_many(), "inference": in_inference()}
LENIENT = (HealthCheck.filter_too_much,)


@pytest.mark.parametrize("kind", KINDS)
def test_verdicts_obey_their_laws(kind):
    settings(max_examples=30, suppress_health_check=LENIENT)(given(KINDS[kind])(obey))()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_verdicts_obey_their_laws(kind):
    settings(max_examples=200, suppress_health_check=LENIENT)(given(KINDS[kind])(obey))()
