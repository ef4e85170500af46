"""What inference leaves on the host: some layers, copied or computed there, and the cache."""

from __future__ import annotations

from io import StringIO
from operator import methodcaller

import numpy as np
import pytest
from rich.console import Console

import roofsim
from roofsim.analyze.sensitivity import elasticities
from roofsim.analyze.timeline import timeline
from roofsim.api import resolve
from roofsim.errors import SpecError
from roofsim.evaluate import evaluate
from roofsim.graph.ops import HostCompute, HostTransfer
from roofsim.graph.split import split_blocks
from roofsim.program import build
from roofsim.report.serving import print_served
from roofsim.spec.constants.physics import shipped_physics
from tests.properties.swept import compare
from tests.scenarios import TINY_EXPERTS, TINY_LLAMA

SIZES = {
    "prefill": {"prompt_length": 64},
    "decode": {"context_length": 256, "output_length": 8},
    "generate": {"prompt_length": 64, "output_length": 8},
}
LINK = 31.5e9 * 0.85
MEMORY = 100e9
REACHED = shipped_physics()["host_copy_efficiency"]


def request_of(offload, phase="decode", model="llama3-8b", engine="huggingface", parallel=None, **workload):
    sizes = SIZES.get(phase, {}) | {"precision": "bf16", "phase": phase, "engine": engine} | workload
    return {
        "model": model,
        "workload": sizes,
        "parallel": {"offload": offload} | (parallel or {}),
        "hardware": {
            "gpu": "a100-sxm4-80gb",
            "system": "dgx-a100",
            "override": {"system.host.memory_bandwidth": f"{MEMORY / 1e9} GB/s"},
        },
    }


def evaluated(offload, phase="decode", **given):
    return evaluate(resolve(request_of(offload, phase, **given)))


def result(offload, phase="decode", **given):
    return roofsim.run(request_of(offload, phase, **given))


def moved(evaluation, what, direction="from_host"):
    ops = [op for stage in evaluation.program.stages for op in stage.graph if isinstance(op, HostTransfer)]
    return sum(
        np.mean(op.message() * op.count) for op in ops if f"offload.{what}." in op.name and op.direction == direction
    )


LAYER = 2.0 * 218_112_000  # bytes of a layer of llama3-8b in 16 bits


@pytest.mark.parametrize("phase", ["prefill", "decode", "generate"])
@pytest.mark.parametrize(("asked", "layers"), [({"layers": 8}, 8), ({"layers": 32}, 32), ({"layers": 1}, 1)])
def test_some_layers_lie_on_the_host(phase, asked, layers):
    kept, sent = result({}, phase), result({"parameters": "host"} | asked, phase)
    off_device = sent.memory.off_device["host"]["parameters"]
    assert off_device == pytest.approx(layers * LAYER, rel=1e-3)
    lost = kept.memory.components["parameters"] - sent.memory.components["parameters"]
    assert lost == pytest.approx(off_device, rel=1e-3)
    buffers = sent.memory.components["communication_buffers"] / LAYER
    assert buffers == pytest.approx(min(layers, 2), rel=0.01)


def test_a_share_is_as_many_layers():
    share, layers = (
        evaluated({"parameters": given} | more) for given, more in (({"host": 0.25}, {}), ("host", {"layers": 8}))
    )
    assert moved(share, "parameters") == moved(layers, "parameters") == pytest.approx(8 * LAYER, rel=1e-3)
    assert share.profiles[0].peak == pytest.approx(layers.profiles[0].peak)
    # A share is spread over all layers, so that more arithmetic runs beside its copies.
    assert share.step.step < layers.step.step


@pytest.mark.parametrize("offload", [{"parameters": "host", "layers": 0}, {"parameters": {"host": 0.0}}], ids=str)
def test_nothing_is_nothing(offload):
    assert result(offload).step_time == result({}).step_time
    assert not result(offload).memory.off_device


def test_the_time_is_that_of_the_copies():
    offloaded = result({"parameters": "host", "layers": 16})
    free = result({}).step_time
    copies = 16 * LAYER / LINK
    assert copies < offloaded.step_time < copies + free
    assert offloaded.bound == "host_link"


@pytest.mark.parametrize("engine", ["huggingface", "llama.cpp"])
@pytest.mark.parametrize("model", [TINY_LLAMA, TINY_EXPERTS, "gemma2-9b"])
def test_split_layers_do_the_same_work(engine, model):
    graph = build(resolve(request_of({}, model=model, engine=engine, precision=None))).stages[0].graph
    units = split_blocks(graph, [1.0 for _ in graph.blocks], "host")
    halves = graph.replaced([op for _, body, _ in units for op in body]).verify()
    for amount in ("flops", "bytes_read", "bytes_written", "kernels"):
        whole, both = (each.total(methodcaller(amount)) for each in (graph, halves))
        assert np.asarray(both) == pytest.approx(np.asarray(whole))
    whole, both = (sum(t.bytes * n for t, n in each.parameters().items()) for each in (graph, halves))
    assert both == pytest.approx(whole)


# -- computed by the host -------------------------------------------------------------------------------------------


def test_llama_cpp_computes_host_layers_at_the_pace_of_host_memory():
    offloaded = result({"parameters": "host", "layers": 16}, engine="llama.cpp", precision="fp16")
    without = result({}, engine="llama.cpp", precision="fp16")
    seconds = 16 * LAYER / (MEMORY * REACHED)
    assert offloaded.step_time == pytest.approx(seconds + without.step_time * 0.53, rel=0.03)
    assert offloaded.bound == "host_memory"
    cache = offloaded.memory.off_device["host"]["key_value_cache"]
    assert cache == pytest.approx(offloaded.memory.components["key_value_cache"], rel=0.01)
    assert offloaded.memory.components["communication_buffers"] == 0.0


def test_long_passes_of_llama_cpp_copy():
    def program(tokens):
        return evaluated(
            {"parameters": "host", "layers": 8}, "prefill", engine="llama.cpp", precision="fp16", prompt_length=tokens
        )

    few, many = program(31), program(32)
    assert any(isinstance(op, HostCompute) for op in few.program.stages[0].graph)
    assert moved(few, "parameters") == 0
    assert not any(isinstance(op, HostCompute) for op in many.program.stages[0].graph)
    assert moved(many, "parameters") == pytest.approx(8 * LAYER, rel=1e-3)
    # Nothing is fetched ahead: the copies show in full.
    assert many.step.breakdown["host_transfer"] == pytest.approx(8 * LAYER / LINK, rel=0.05)


def test_the_host_may_compute_everything():
    offloaded = result({"parameters": "host"}, engine="llama.cpp", precision="fp16")
    assert offloaded.step_time == pytest.approx(2 * (8.03e9 - 128256 * 4096) / (MEMORY * REACHED), rel=0.02)


def test_a_desktop_has_an_assumed_memory():
    request = request_of({"parameters": "host", "layers": 8}, engine="llama.cpp", precision="fp16")
    request["hardware"] = {"gpu": "rtx4090"}
    assert any("memory_bandwidth: 51.2 GB/s" in line for line in resolve(request).assumed)
    request["hardware"]["override"] = {"system.host.memory_bandwidth": "80 GB/s"}
    assert not any("memory_bandwidth" in line for line in resolve(request).assumed)


def test_half_of_a_large_model_decodes_at_the_pace_of_a_desktop():
    request = request_of(
        {"parameters": "host", "layers": 40}, model="llama3-70b", engine="llama.cpp", precision="q4_k_m"
    )
    request["hardware"] = {"gpu": "rtx4090"}
    result = roofsim.run(request)
    assert 0.3 < result.step_time < 0.6
    assert result.memory.device_total < result.memory.capacity


# -- the cache ------------------------------------------------------------------------------------------------------

TOKEN = 2.0 * 2 * 8 * 128 * 32  # bytes of a token's keys and values in llama3-8b


def test_llama_cpp_attends_to_its_cache_on_the_host():
    given = {"engine": "llama.cpp", "precision": "fp16", "context_length": 4096, "output_length": 1, "batch_size": 8}
    kept, sent = (evaluated(offload, **given) for offload in ({}, {"key_value_cache": "host"}))
    read = 8 * 4096 * TOKEN
    assert sent.step.step == pytest.approx(kept.step.step + read / (MEMORY * 0.8), rel=0.15)
    assert moved(sent, "cache") == 0  # only queries, what is new, and results travel
    assert moved(sent, "attended", "to_host") + moved(sent, "result") < 0.01 * read
    assert sent.profiles[0].components["key_value_cache"] == 0
    assert any(isinstance(op, HostCompute) for op in sent.program.stages[0].graph)


@pytest.mark.parametrize("engine", ["huggingface", "vllm"])
def test_a_decode_reads_the_cache_over_the_link(engine):
    given = {"engine": engine, "precision": "bf16", "context_length": 4096, "output_length": 1, "batch_size": 8}
    kept, sent = (evaluated(offload, **given) for offload in ({}, {"key_value_cache": "host"}))
    assert moved(sent, "cache") == pytest.approx(8 * 4096 * TOKEN, rel=0.01)
    assert moved(sent, "cached", "to_host") == pytest.approx(8 * TOKEN)
    assert sent.step.step > 8 * 4096 * TOKEN / LINK
    assert sent.profiles[0].components["key_value_cache"] == 0
    assert kept.profiles[0].components["key_value_cache"] > 0


def test_the_cache_of_the_longest_context_lies_on_the_host():
    given = {"context_length": 1000, "output_length": 100, "batch_size": 4}
    offloaded = result({"key_value_cache": "host"}, **given)
    assert offloaded.memory.off_device["host"]["key_value_cache"] == pytest.approx(4 * 1100 * TOKEN, rel=0.01)
    two_layers = 2 * 4 * 1100 * TOKEN / 32
    assert offloaded.memory.components["communication_buffers"] == pytest.approx(two_layers, rel=0.02)


def test_a_prompt_only_sends():
    evaluation = evaluated({"key_value_cache": "host"}, "prefill", prompt_length=1024)
    assert moved(evaluation, "cache") == 0
    assert moved(evaluation, "cached", "to_host") == pytest.approx(1024 * TOKEN)


def test_generate_moves_both():
    both = {"parameters": {"host": 0.5}, "key_value_cache": "host"}
    offloaded = result(both, "generate", batch_size=16)
    assert set(offloaded.memory.off_device["host"]) == {"parameters", "key_value_cache"}
    assert offloaded.step_time > result({"parameters": {"host": 0.5}}, "generate", batch_size=16).step_time


@pytest.mark.parametrize("engine", ["huggingface", "llama.cpp"])
@pytest.mark.parametrize(
    "offload",
    [
        {"parameters": "host", "layers": 3},
        {"key_value_cache": "host"},
        {"parameters": {"host": 0.5}, "key_value_cache": "host"},
    ],
    ids=str,
)
@pytest.mark.parametrize("phase", ["prefill", "decode", "generate"])
def test_sums_and_elasticities(engine, offload, phase):
    evaluation = evaluated(offload, phase, model="gpt2-124m", engine=engine, precision=None)
    assert sum(evaluation.step.breakdown.values()) == pytest.approx(evaluation.step.step)
    assert sum(evaluation.step.resources.values()) == pytest.approx(evaluation.step.step)
    assert sum(elasticities(evaluation.reprice).values()) == pytest.approx(-1.0, abs=1e-3)


@pytest.mark.parametrize("model", ["deepseek-v2-lite", "gemma2-9b", "t5-base", "qwen3-30b-a3b"])
def test_other_models(model):
    sizes = {"context_length": 64} if model != "t5-base" else {"prompt_length": 64}
    offloaded = result({"parameters": {"host": 0.5}}, model=model, **sizes)
    assert offloaded.memory.off_device["host"]["parameters"] > 0.2 * offloaded.memory.components["parameters"]


def test_stages_of_a_pipeline_each_keep_a_share():
    evaluation = evaluated(
        {"parameters": "host", "layers": 16}, engine="llama.cpp", precision="fp16", parallel={"pipeline": 2}
    )
    work = [sum(op.read * op.count for op in s.graph if isinstance(op, HostCompute)) for s in evaluation.program.stages]
    assert [float(np.max(one)) for one in work] == pytest.approx([8 * LAYER] * 2, rel=0.02)
    one = evaluated({"parameters": "host", "layers": 16}, engine="llama.cpp", precision="fp16")
    assert evaluation.step.resources["host_memory"] == pytest.approx(one.step.resources["host_memory"], rel=0.02)


@pytest.mark.parametrize("engine", ["huggingface", "llama.cpp"])
def test_arrays_are_their_elements(engine):
    offload = {"parameters": "host", "layers": 3, "key_value_cache": "host"}
    request = resolve(request_of(offload, model="gpt2-124m", engine=engine, precision=None))
    swept = {
        "workload.micro_batch_size": [1, 16],
        "workload.context_length": [64, 128],
        "gpu.host_link.bandwidth": [1e9, 3e9],
    }
    compare(request, swept)


@pytest.mark.parametrize("offload", [{"parameters": "host", "layers": 3}, {"parameters": {"host": 0.3}}], ids=str)
def test_arrays_of_layers_are_their_elements(offload):
    request = resolve(request_of(offload, "prefill", model="gpt2-124m", precision=None))
    compare(request, {"workload.micro_batch_size": [1, 16], "model.num_layers": [6, 12]})


def test_rows_on_both_sides_of_the_threshold():
    def seconds(batch):
        resolved = resolve(
            request_of({"parameters": "host", "layers": 6}, model="gpt2-124m", engine="llama.cpp", precision=None)
        )
        return evaluate(
            type(resolved)(
                **{**resolved.__dict__, "workload": resolved.workload.model_copy(update={"micro_batch_size": batch})}
            )
        ).step.step

    both = seconds(np.array([8.0, 64.0]))
    assert both.tolist() == pytest.approx([seconds(8), seconds(64)], rel=1e-6)


# -- servers, refusals ----------------------------------------------------------------------------------------------


def test_a_server_keeps_its_share():
    def room(offload):
        request = request_of(offload, "generate", engine="vllm")
        return roofsim.serve(request).room

    kept, half, all_ = (room(o) for o in ({}, {"parameters": "host", "layers": 16}, {"parameters": "host"}))
    assert half.off_device["host"]["parameters"] == pytest.approx(16 * LAYER, rel=1e-3)
    assert half.parameters == pytest.approx(kept.parameters - 16 * LAYER, rel=1e-3)
    assert all_.parameters < 0.01 * kept.parameters
    assert kept.pool < half.pool < all_.pool
    assert "off_device" not in kept.to_dict()
    assert half.to_dict()["off_device"] == half.off_device


REFUSED = [
    ({"parameters": "cpu"}, {}, "expected one of 'none', 'host', 'cxl', 'nvme', 'nvmeof' or a mapping"),
    ({"parameters": {"host": 1.5}}, {}, "expected a number at most 1"),
    ({"parameters": {"host": -0.1}}, {}, "expected a number at least 0"),
    ({"parameters": {"gpu": 0.5}}, {}, "unknown key 'gpu'"),
    ({"parameters": {"host": 0.5, "nvme": 0.2}}, {}, "give the share of one place"),
    ({"parameters": "host", "layers": 33}, {}, "33 layers, but llama3-8b has 32"),
    ({"parameters": "host", "layers": -1}, {}, "expected a number at least 0"),
    ({"layers": 3}, {}, "layers goes with parameters"),
    ({"parameters": {"host": 0.5}, "layers": 3}, {}, "not both"),
    ({"key_value_cache": "nvme"}, {}, "does not state storage.write"),
    ({"optimizer_state": "host"}, {}, "cannot be offloaded in phase decode"),
    (
        {"parameters": "nvme"},
        {"engine": "llama.cpp", "precision": "fp16"},
        "computes the layers that are not on the device",
    ),
    ({"parameters": "host", "layers": 3}, {"model": "t5-base", "prompt_length": 8}, "not one stack of layers"),
    ({"key_value_cache": "host"}, {"phase": "forward"}, "keeps no cache in phase forward"),
]


@pytest.mark.parametrize(("offload", "given", "message"), REFUSED, ids=str)
def test_refusals_say_what_is_wrong(offload, given, message):
    with pytest.raises(SpecError, match=message) as caught:
        evaluated(offload, **given)
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("offload", "message"),
    [
        ({"key_value_cache": "host"}, "training keeps no cache"),
        ({"parameters": {"host": 0.5}}, "in inference only"),
        ({"parameters": "host", "layers": 3}, "in inference only"),
    ],
    ids=str,
)
def test_training_has_neither(offload, message):
    with pytest.raises(SpecError, match=message) as caught:
        resolve({"model": "gpt2-124m", "parallel": {"offload": offload}})
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize("offload", [{"key_value_cache": "host"}, {"parameters": {"host": 0.5}}], ids=str)
def test_a_system_without_a_link_is_an_error(offload):
    request = request_of(offload)
    request["hardware"] = {"gpu": "a100-sxm4-80gb", "override": {"gpu.host_link": None, "system.host_link": None}}
    with pytest.raises(SpecError, match=r"does not state host_link\.bandwidth"):
        resolve(request)


def test_a_server_wants_its_cache():
    with pytest.raises(SpecError, match="servers of vllm are only modelled with the cache on the device"):
        roofsim.serve(request_of({"key_value_cache": "host"}, "generate", engine="vllm"))


@pytest.mark.parametrize(("layers", "said"), [({}, "no weights"), ({"layers": 16}, "of the weights")])
def test_what_a_server_prints(layers, said):
    request = request_of({"parameters": "host"} | layers, "generate", engine="vllm")
    text = StringIO()
    print_served(Console(width=200, file=text), roofsim.serve(request))
    printed = text.getvalue()
    assert said in printed
    assert "on the host parameters" in printed
    assert "512 B" not in printed


@pytest.mark.parametrize("more", [{}, {"key_value_cache": "host"}], ids=str)
def test_the_timeline_waits_for_the_host(more):
    offload = {"parameters": "host", "layers": 16} | more
    evaluation = evaluated(offload, engine="llama.cpp", precision="fp16", context_length=4096, batch_size=16)
    spans = timeline(evaluation).spans
    assert max(span.start + span.seconds for span in spans) == pytest.approx(evaluation.step.step, rel=0.02)
