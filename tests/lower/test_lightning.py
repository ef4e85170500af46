"""Lightning attention: products of blocks, a state in the type of the model, what its function keeps, heads over ranks."""

from __future__ import annotations

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.graph.base import Kind, Phase
from roofsim.graph.component import Purpose
from roofsim.lower.shares import Shares
from roofsim.spec.model.registry import family_schema
from roofsim.spec.reading.source import from_mapping
from roofsim.spec.reading.validate import validate
from tests.lower.transformer_checks import run
from tests.lower.vision_checks import catalog_model

HEADS, SIZE, LENGTH = 64.0, 128.0, 1024.0


def layered(**block):
    """Return a small model with one layer of it."""
    layer = {"residual": ["rms_norm", {"lightning_attention": {"num_heads": 8, "head_size": 32, **block}}]}
    ends = [{"embedding": {"entries": 1000, "width": 256}}], ["rms_norm", {"logits": 1000}]
    return {"family": "layers", "name": "light", "layers": [*ends[0], layer, *ends[1]]}


def test_products_of_blocks():
    """Scores and what they take are a block wide; what a block adds, and what it finds, as wide as a head."""
    graph = run(catalog_model("minimax-text-01"), phase="forward", size=LENGTH)
    inside = sum(op.flops() * op.count for op in graph if op.group is Kind.ATTENTION is not op.kind)
    assert inside == 70 * 2.0 * LENGTH * HEADS * (2 * 256 * SIZE + 2 * SIZE * SIZE)


def test_blocks_as_long_as_the_prompt_are_quadratic():
    def inside(**block):
        model = validate(family_schema("layers"), from_mapping(layered(**block)))
        return sum(op.flops() for op in run(model, phase="forward", size=512.0) if op.group is Kind.ATTENTION)

    assert inside(block_size=512) - inside(block_size=256) == 2.0 * 512 * 8 * 2 * 256 * 32


def test_backward_makes_the_blocks_again():
    """Scores and states are made again where backward reads them."""
    graph = run(catalog_model("minimax-text-01"), size=LENGTH)
    within = [op for op in graph if op.within(Purpose.MADE_AGAIN) and op.group is Kind.ATTENTION]
    flops = {phase: sum(op.flops() * op.count for op in within if op.phase is phase) for phase in Phase}
    assert flops[Phase.BACKWARD] == 2.0 * flops[Phase.FORWARD]
    # Scores and the state's update; what tokens find is not read again.
    share = (256 + SIZE) / (2 * 256 + 2 * SIZE)
    assert flops[Phase.RECOMPUTE] == pytest.approx(share * flops[Phase.FORWARD], rel=1e-12)


def test_a_step_takes_as_long_at_any_context_without_a_softmax():
    first, last = (
        roofsim.run(layered(), gpu="h100", phase="decode", batch_size=8, context_length=tokens).step_time
        for tokens in (64, 65536)
    )
    assert first == last > 0.0


def test_ranks_split_heads_and_add_up_the_squares_of_the_norm():
    def collectives(tensor):
        model, shares = catalog_model("minimax-text-01"), Shares(tensor=tensor)
        graph = run(model, phase="decode", context_length=64.0, size=1.0, shares=shares)
        return [
            op for op in graph if op.kind is Kind.COLLECTIVE and op.within(Purpose.MIXER) and op.function != "identity"
        ]

    assert not collectives(1.0)
    # The squares of each token, then the sum of what ranks computed.
    assert sum(op.count for op in collectives(8.0)) == 2 * 70


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"head_size": 0}, "head_size"),
        ({"num_heads": "many"}, "many"),
        ({"block": 64}, "block"),
    ],
)
def test_refusals(block, message):
    with pytest.raises(SpecError, match=message):
        roofsim.run(layered(**block), gpu="h100", sequence_length=128)
