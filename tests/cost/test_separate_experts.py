"""Where a library multiplies the rows of each expert, they take as long as a plain product of the same size."""

from __future__ import annotations

import pytest

from roofsim.api import resolve
from roofsim.evaluate import evaluate
from roofsim.graph.ops import Elementwise, GroupedMatmul, Matmul

EXPERTS = 4
#: One expert of every four takes a quarter of the rows: as many as the dense model has with a quarter of the sequences.
SPARSE = {"family": "decoder", "num_layers": 1, "hidden_size": 2048, "num_attention_heads": 16, "vocab_size": 32000,
          "gated_mlp": True, "intermediate_size": 4096, "num_experts": EXPERTS, "experts_per_token": 1}  # fmt: skip
DENSE = {name: value for name, value in SPARSE.items() if "experts" not in name}


def pricing(model, batch, length=2048, gpu="a100", **choices):
    scenario = {
        "model": model,
        "workload": {"phase": "forward", "batch_size": batch, "sequence_length": length, **choices},
    }
    return evaluate(resolve(scenario, gpu=gpu)).priced[0]


def product(priced, kind):
    """Return the cost of the products up from the residual stream: gate and up."""
    ops = [cost for cost in priced.per_op() if isinstance(cost.op, kind) and cost.op.n >= DENSE["intermediate_size"]]
    of_layers = [cost for cost in ops if "logits" not in cost.op.name]
    return sum(cost.time for cost in of_layers), sum(cost.launches for cost in of_layers)


def test_each_expert_takes_what_a_plain_product_takes():
    sparse, launches = product(pricing(SPARSE, 8, engine="huggingface", precision="fp16"), GroupedMatmul)
    dense, plain = product(pricing(DENSE, 8 / EXPERTS, engine="huggingface", precision="fp16"), Matmul)
    assert launches == pytest.approx(EXPERTS, rel=1e-6)
    assert sparse == pytest.approx(EXPERTS * dense, rel=0.05)  # gate and up are two products of the dense model
    assert plain == 2.0


@pytest.mark.parametrize(("gpu", "launches"), [("a100", EXPERTS), ("rtx4090", EXPERTS), ("h100", 1.0), ("b200", 1.0)])
def test_grouped_kernels_are_those_of_some_architectures(gpu, launches):
    priced = pricing(SPARSE, 1, 512, gpu, engine="pytorch-eager", precision="bf16")
    assert product(priced, GroupedMatmul)[1] == pytest.approx(launches, rel=1e-6)


def test_streams_fill_a_card_that_one_small_product_does_not():
    def time(streams):
        facts = {"experts.products": "separate", "experts.product_streams": streams}
        priced = pricing(SPARSE, 1, engine="megatron-core", precision="bf16", engine_facts=facts)
        return product(priced, GroupedMatmul)[0]

    assert time(4) < 0.95 * time(1)
    assert time(4) == pytest.approx(time(64), rel=1e-12)  # there are four products


def adds(engine):
    scenario = {
        "model": SPARSE,
        "workload": {"phase": "train", "micro_batch_size": 1, "global_batch_size": 2, "sequence_length": 512},
    }
    (stage,) = evaluate(resolve(scenario, gpu="h100", engine=engine, precision="bf16")).program.stages
    return [
        op for op in stage.graph if isinstance(op, Elementwise) and "experts" in op.name and ".accumulate." in op.name
    ]


def test_gradients_of_experts_are_added_by_their_products_where_the_engine_does_so():
    assert not [op for op in adds("megatron-core") if "matmul" in op.name]
    assert [op for op in adds("megatron-core@2024-07") if "matmul" in op.name]
