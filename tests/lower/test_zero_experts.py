"""Experts that hand tokens on as they are: fewer rows for the others, a wider router, the way over ranks (LongCat-Flash)."""

from __future__ import annotations

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.graph.base import Kind
from roofsim.graph.ops import Collective, GroupedMatmul
from roofsim.lower.shares import Shares
from roofsim.spec.model.registry import family_schema
from roofsim.spec.reading.source import from_mapping
from roofsim.spec.reading.validate import validate
from tests.lower.transformer_checks import run
from tests.lower.vision_checks import catalog_model, parameters

TOKENS = 512.0
EXPERTS = {"num_experts": 16, "experts_per_token": 6, "expert_intermediate_size": 64}


def layered(**experts):
    """Return a small model with one mixture."""
    layer = {"residual": ["rms_norm", {"experts": EXPERTS | experts}]}
    ends = [{"embedding": {"entries": 1000, "width": 128}}], ["rms_norm", {"logits": 1000}]
    return {"family": "layers", "name": "idle", "layers": [*ends[0], layer, *ends[1]]}


def built(**experts):
    return validate(family_schema("layers"), from_mapping(layered(**experts)))


def rows(graph):
    return {op.rows for op in graph if isinstance(op, GroupedMatmul)}


def test_experts_that_compute_get_their_share_of_the_rows():
    forward = {idle: run(built(zero_experts=idle), phase="forward", size=TOKENS) for idle in (0, 8)}
    assert rows(forward[0]) == {TOKENS * 6}
    assert rows(forward[8]) == {TOKENS * 4}
    # The router chooses among all, and nothing else has weights for those that compute nothing.
    assert parameters(forward[8]) - parameters(forward[0]) == 8 * 128
    # What they hand on is added, where there are some.
    handed_on = {idle: [op for op in graph if ".zero_experts." in op.name] for idle, graph in forward.items()}
    assert [len(handed_on[idle]) for idle in (0, 8)] == [0, 4]


def test_longcat_activates_27_billion_parameters_on_average():
    """arXiv 2509.01322: 18.6 to 31.3 billion, 27 on average, the table of tokens apart."""
    result = roofsim.run("longcat-flash-560b", gpu="h200", gpus=16, tensor=16, phase="decode", context_length=1024)
    assert result.parameters["total"] == 560664958976
    assert result.parameters["active"] - 131072 * 6144 == pytest.approx(27.1e9, rel=2e-3)


def test_ranks_send_only_the_rows_of_experts_that_compute():
    def sent(idle):
        graph = run(built(zero_experts=idle), phase="forward", size=TOKENS, shares=Shares(expert=4.0))
        return {op.inputs[0].numel for op in graph if isinstance(op, Collective) and op.function == "all_to_all"}

    assert (sent(0), sent(8)) == ({TOKENS * 6 * 128}, {TOKENS * 4 * 128})


def test_experts_run_beside_the_dense_part_and_are_added_last():
    graph = run(catalog_model("longcat-flash-560b"), phase="forward", size=TOKENS)
    names = [op.name for op in graph]
    first = next(at for at, name in enumerate(names) if "experts" in name)
    last = max(at for at, name in enumerate(names) if name.startswith("repeat.") and "residual4.mlp" in name)
    assert first < last
    assert graph.ops[last + 2].function == "add"  # after the sum of the second dense part
    assert sum(op.count for op in graph if op.group is Kind.ATTENTION) == 2 * 28


@pytest.mark.parametrize(
    ("experts", "message"),
    [
        ({"experts_per_token": 30, "zero_experts": 8}, "30 of 24 experts"),
        ({"zero_experts": -1}, "zero_experts"),
        ({"zero_experts": 8, "router_groups": 4}, "zero_experts: they go with scores"),
        ({"zero_experts": 8, "router_scores": "softmax_of_top"}, "zero_experts: they go with scores"),
    ],
)  # fmt: skip
def test_refusals(experts, message):
    with pytest.raises(SpecError, match=message):
        roofsim.run(layered(**experts), gpu="h100", sequence_length=64)
