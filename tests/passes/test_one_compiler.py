"""The forward pass of a training step is the forward pass of the same engine on its own: one compiler makes both."""

from __future__ import annotations

import pytest

from roofsim.graph.base import Phase
from roofsim.graph.component import Purpose
from roofsim.spec import catalog
from roofsim.spec.engine.schema import catalog_engine
from tests.scenarios import TINY, TINY_EXPERTS, TINY_LLAMA, graph_of

TRAINED = [name for name in catalog.names("engine") if {"train", "forward"} <= set(catalog_engine(name).phases)]
ENCODER = {
    "family": "encoder", "num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 128,
}  # fmt: skip
MODELS = {"gpt": TINY, "llama": TINY_LLAMA, "experts": TINY_EXPERTS, "bert": ENCODER}


def kernels_of(model, phase, **workload):
    """Return the kernels of a forward pass, without those of the loss: name -> what they compute, read and launch."""
    graph = graph_of(model | {"dropout": 0.0}, phase=phase, sequence_length=32, **workload)
    ops = (op for op in graph if op.phase is Phase.FORWARD and op.kernels() and not op.within(Purpose.LOSS))
    return {op.name: (op.kind, op.flops(), op.bytes_read(), op.kernels() * op.count) for op in ops}


@pytest.mark.parametrize("precision", ["bf16", "bf16-amp"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("engine", [*TRAINED, "pytorch-eager+litgpt"])
def test_forward_of_a_training_step_is_a_forward_pass(engine, model, precision):
    # A compiler that plans what backward reads makes other kernels of a forward pass that has one behind it.
    same = {"engine": engine, "precision": precision, "engine_facts": {"backward_reads": "autograd"}}
    training = kernels_of(MODELS[model], "train", micro_batch_size=2, optimizer="none", **same)
    shifted = {name for name in training if name.startswith("head.shift")}  # to the labels of the next tokens
    alone = kernels_of(MODELS[model], "forward", batch_size=2, **same)
    assert {name: work for name, work in training.items() if name not in shifted} == alone
