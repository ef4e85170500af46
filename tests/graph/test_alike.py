"""Ops that are alike do the same work, whatever they are called and wherever they stand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from roofsim.cost.kernels import ops as kernels
from roofsim.cost.kernels.engine import pricing_of
from roofsim.evaluate import evaluate
from roofsim.graph.alike import alike
from roofsim.graph.ops import Elementwise, Matmul
from roofsim.graph.tensor import BF16, Role, Tensor
from roofsim.points import Points
from roofsim.records import fields, replace
from tests.scenarios import FAMILIES, TINY_EXPERTS, TINY_LLAMA, resolved

CASES = {
    **{name: (FAMILIES[name]["model"], FAMILIES[name]["workload"], {}) for name in ("resnet", "swin", "diffusion-unet")},
    "experts": (TINY_EXPERTS, {"sequence_length": 64, "recompute": "full"}, {"engine": "megatron-core"}),
    "compiled": (TINY_LLAMA, {"sequence_length": 64, "optimizer": "muon"}, {"engine": "pytorch-compile"}),
    "served": (TINY_LLAMA, {"phase": "decode", "context_length": 64, "batch_size": 8}, {"engine": "vllm"}),
    "packed": (TINY_LLAMA, {"phase": "prefill", "prompt_length": 64, "precision": "q4_0"}, {"engine": "llama.cpp"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_kernels_of_ops_that_are_alike_are_those_of_each_alone(name):
    model, workload, more = CASES[name]
    scenario = resolved(model, **(workload | more))
    evaluation = evaluate(scenario)
    for stage in evaluation.program.stages:
        ops = stage.graph.ops
        first, numbers = alike(ops)
        assert len(first) < len(ops)
        assert [first[number].kind for number in numbers] == [op.kind for op in ops]
        amounts = (
            "flops",
            "model_flops",
            "needed_flops",
            "hardware_flops",
            "executed_flops",
            "bytes_read",
            "bytes_written",
            "kernels",
        )
        for op, number in zip(ops, numbers, strict=True):
            for amount in amounts:
                assert np.array_equal(getattr(op, amount)(), getattr(first[number], amount)()), (op.name, amount)
        context = pricing_of(scenario, scenario.gpu, stage.phase)
        together = kernels.kernels_of_all(ops, context)
        alone = [(at, work) for at, op in enumerate(ops) for _, work in kernels.kernels_of_all([op], context)]
        assert len(together) == len(alone)
        for (place, work), (other, own) in zip(together, alone, strict=True):
            assert place == other
            for field in fields(work):
                same = getattr(work, field.name), getattr(own, field.name)
                assert same[0] == same[1] or np.allclose(*same, rtol=1e-12, atol=0.0), (ops[place].name, field.name)


def _product(**changes):
    left, weight = Tensor("x", (8.0, 4.0), BF16), Tensor("w", (4.0, 2.0), BF16, Role.PARAMETER)
    values: dict[str, Any] = {
        "name": "p",
        "m": 8.0,
        "n": 2.0,
        "k": 4.0,
        "inputs": (left, weight),
        "outputs": (Tensor("y", (8.0, 2.0), BF16),),
    }
    return Matmul(**(values | changes))


def test_what_tells_ops_apart():
    plain = _product()
    x, w = plain.inputs
    once = Elementwise(name="square", function="mul", inputs=(x, x), outputs=(Tensor("z", x.shape, BF16),))
    others = [
        _product(m=4.0),
        _product(inputs=(x, replace(w, role=Role.ACTIVATION))),
        _product(inputs=(replace(x, base=Tensor("storage", (2.0,), BF16)), w)),
        _product(expansion="anything else that is stated"),
        once,
        replace(once, inputs=(x, replace(x))),
    ]
    first, numbers = alike([plain, _product(name="q", share=0.5), *others])
    assert numbers[1] == numbers[0]
    assert len(first) == 1 + len(others)


@pytest.mark.parametrize("kind", [np.ndarray, Points])
def test_arrays_of_sizes_are_told_apart_by_their_numbers(kind):
    sizes = [np.array(each).view(kind) for each in ([2.0, 3.0], [2.0, 3.0], [2.0, 4.0], [[2.0, 3.0]])]
    first, numbers = alike([*(_product(m=each, inputs=()) for each in sizes), _product(inputs=())])
    assert numbers == [0, 0, 1, 2, 3]
    assert len(first) == 4


def test_points_that_agree_are_one_number():
    ops = [_product(m=size, inputs=()) for size in (np.array([2.0, 2.0]).view(Points), 2.0)]
    assert alike(ops)[1] == [0, 0]
