"""What is alive at the peak, storage by storage: the same peak, op and categories as liveness in sums."""

from __future__ import annotations

import pytest

from roofsim.memory.inventory import inventory
from tests.scenarios import FAMILIES, TINY, evaluated, spread


def check(evaluation):
    for stage, memory_profile in zip(evaluation.program.stages, evaluation.profiles, strict=True):
        listed = inventory(stage.graph, stage.in_flight)
        assert listed.peak == pytest.approx(memory_profile.peak, rel=1e-12)
        assert listed.op.name == memory_profile.peak_op
        sums = dict.fromkeys(memory_profile.components, 0.0)
        for entry in listed.entries:
            assert entry.copies > 0
            sums[entry.category] += entry.bytes
        assert sums == pytest.approx(memory_profile.components, rel=1e-9, abs=1.0)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in ("diffusion-unet", "densenet")])
@pytest.mark.parametrize(
    "workload", [{}, {"recompute": "full"}, {"phase": "forward"}, {"global_batch_size": 4}], ids=str
)
def test_every_family(family, workload):
    case = FAMILIES[family]
    check(evaluated(case["model"], precision="bf16-amp", **case["workload"], **workload))


@pytest.mark.parametrize("precision", ["bf16", "bf16-amp"])
def test_micro_batches_that_wait_are_listed(precision):
    """Three others on the first stage of four: what each saved, but for the weights in another type that all share."""
    request = {"precision": precision, "global_batch_size": 32, "sequence_length": 64}
    evaluation = spread(TINY | {"num_layers": 8}, {"pipeline": 4}, **request)
    check(evaluation)
    stage = evaluation.program.stages[0]
    one, four = (inventory(stage.graph, held) for held in (1.0, 4.0))
    saved = {entry.tensor: entry for entry in one.entries}
    for entry in four.entries:
        if entry.op.name == "layers.self_attention.output.matmul" and entry.category == "activations":
            assert entry.copies == saved[entry.tensor].copies + 3 * stage.graph.blocks[0].repeat
    assert four.peak > one.peak


def test_layers_count_their_copies():
    listed = inventory(evaluated(TINY, sequence_length=64).program.stages[0].graph)
    copies = {entry.tensor.name: entry.copies for entry in listed.entries}
    assert copies["layers.self_attention.output.weight"] == TINY["num_layers"]
