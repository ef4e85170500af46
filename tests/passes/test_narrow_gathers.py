"""Sequences that tensor ranks gather for narrow GEMMs: what travels, what is kept, what stays as it was."""

from __future__ import annotations

import pytest

from roofsim.graph.base import Phase
from roofsim.graph.ops import Cast, Collective, Matmul
from roofsim.memory.profile import profile
from tests.scenarios import TINY, TINY_LLAMA, spread

TOKENS, H, LAYERS, RANKS = 64, 64, 4, 2


def graph_of(model=TINY_LLAMA, *, gathers="operands", precision="fp8", **workload):
    facts = {"gather_type": gathers}
    evaluation = spread(
        model, {"tensor": RANKS, "sequence": True}, gpu="h100", engine="megatron-core", precision=precision,
        sequence_length=TOKENS, engine_facts=facts, **workload,
    )  # fmt: skip
    return evaluation.program.stages[0].graph


def sent(graph, phase, function="all_gather"):
    """Bytes of a layer's messages of a phase, in those of a tensor of activations in 16 bits."""
    ops = [op for op in graph if isinstance(op, Collective) and op.block is not None and op.group_of == "tensor"]
    total = sum(op.message() * op.count for op in ops if (op.function, op.phase) == (function, phase))
    return total / (2 * TOKENS * H * LAYERS)


def test_what_is_gathered_travels_in_a_byte():
    """Forward two sequences; backward both again and two gradients. Sums of partial results stay in 16 bits."""
    wide, narrow = (graph_of(gathers=gathers) for gathers in ("compute", "operands"))
    assert (sent(wide, Phase.FORWARD), sent(wide, Phase.BACKWARD)) == (2.0, 4.0)
    assert (sent(narrow, Phase.FORWARD), sent(narrow, Phase.BACKWARD)) == (1.0, 2.0)
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        assert sent(narrow, phase, "reduce_scatter") == sent(wide, phase, "reduce_scatter") == 2.0


@pytest.mark.parametrize(("precision", "share"), [("fp8", 1.0), ("mxfp8", 33 / 64), ("nvfp4", 9 / 32)])
def test_what_is_scaled_by_block_is_quantised_before_it_is_gathered(precision, share):
    """Data and scales of 32 or 16 elements; Megatron-Core needs to be asked for fp8 alone, which Hopper transposes."""
    evaluation = spread(
        TINY_LLAMA, {"tensor": RANKS, "sequence": True}, gpu="b200", engine="megatron-core", precision=precision,
        sequence_length=TOKENS,
    )  # fmt: skip
    graph = evaluation.program.stages[0].graph
    assert sent(graph, Phase.FORWARD) == pytest.approx(2.0 * share)
    assert sent(graph, Phase.BACKWARD) == pytest.approx(4.0 * share)
    assert sent(graph, Phase.FORWARD, "reduce_scatter") == 2.0


def test_the_part_is_kept_in_the_type_that_travelled():
    """Of two norms a rank keeps a byte per element of its part in place of two."""
    wide, narrow = (profile(graph_of(gathers=g), granule=1.0).saved_activations for g in ("compute", "operands"))
    assert wide - narrow == LAYERS * 2 * TOKENS / RANKS * H


def test_products_read_and_compute_the_same():
    wide, narrow = (graph_of(gathers=gathers) for gathers in ("compute", "operands"))
    for graph in (wide, narrow):
        products = [op for op in graph if isinstance(op, Matmul) and op.block is not None]
        assert {t.dtype.name for op in products for t in op.inputs[:2]} == {"fp8"}
    assert wide.total(lambda op: op.flops() * isinstance(op, Matmul)) == narrow.total(
        lambda op: op.flops() * isinstance(op, Matmul)
    )
    # conversions touch a rank's part, not the whole
    assert narrow.total(lambda op: op.bytes_read() * isinstance(op, Cast)) < wide.total(
        lambda op: op.bytes_read() * isinstance(op, Cast)
    )


def test_what_adapters_read_too_stays_wide():
    """Their first factors read the whole sequence in 16 bits."""
    graph = graph_of(adapter={"rank": 8, "targets": "attention"})
    kinds = {
        op.name: op.inputs[0].dtype.name
        for op in graph
        if isinstance(op, Collective)
        and (op.function, op.phase) == ("all_gather", Phase.FORWARD)
        and op.block is not None
    }
    assert kinds == {"layers.self_attention.tensor_all_gather": "bf16", "layers.mlp.tensor_all_gather": "fp8"}


@pytest.mark.parametrize(
    "workload", [{}, {"recompute": "full"}, {"recompute": "selective"}, {"precision": "bf16"}], ids=str
)
@pytest.mark.parametrize("model", [TINY, TINY_LLAMA], ids=["biases", "gated"])
def test_any_recomputation_runs(model, workload):
    precision = workload.get("precision", "fp8")
    rest = {key: value for key, value in workload.items() if key != "precision"}
    wide, narrow = (graph_of(model, gathers=g, precision=precision, **rest) for g in ("compute", "operands"))
    assert sent(narrow, Phase.FORWARD) == sent(wide, Phase.FORWARD) * (1.0 if precision == "bf16" else 0.5)
