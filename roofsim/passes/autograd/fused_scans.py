"""Let a fused scan keep what its library's function keeps: its backward pass runs the rest again.

``MambaSplitConv1dScanCombinedFn`` (mamba_ssm 2.3.0, ops/triton/ssd_combined.py) keeps what the first projection made, the scan's
result and the deviations of a norm. Backward convolves again, and makes the states of chunks, their scores and the normalised
result again before it needs them. ``MambaInnerFn`` (ops/selective_scan_interface.py, ``checkpoint_lvl`` 1) convolves again and
makes the steps of tokens again; its scan's backward kernel gates the result again, which the last projection's weights wait for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.base import AbstractOp, Block, Phase
from roofsim.graph.component import Component, Purpose
from roofsim.graph.ops import Scan
from roofsim.graph.rewire import rewired, rewired_all
from roofsim.records import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.graph.tensor import Tensor

#: Part of a program, and the block that holds it (layers that are recomputed, and others, are blocks of their own) -> its ops.
Regions = dict[tuple[Component, Block | None], list[AbstractOp]]


def run_again(forward: Sequence[AbstractOp], backward: list[AbstractOp]) -> list[AbstractOp]:
    """Return a backward pass in which fused scans make again what their forward pass does not keep."""
    # What a later one makes again may read an earlier one.
    for (component, _), region in reversed(_regions(forward).items()):
        kept = set() if component.purpose is Purpose.MADE_AGAIN else _kept(region)
        backward = _with_region(region, kept, backward)
    for op in forward:
        if isinstance(op, Scan) and op.gates_again:
            backward = _gated_again(op, backward)
    return backward


def _regions(forward: Sequence[AbstractOp]) -> Regions:
    regions: Regions = {}
    for op in forward:
        for component in () if op.component is None else op.component.chain():
            if component.purpose in (Purpose.FUSED_SCAN, Purpose.MADE_AGAIN):
                regions.setdefault((component, op.block), []).append(op)
    return regions


def _gated_again(scan: Scan, backward: list[AbstractOp]) -> list[AbstractOp]:
    """Return a backward pass whose scan writes the gated result once more, before what reads it."""
    at = next((at for at, op in enumerate(backward) if isinstance(op, Scan) and op.origin is scan), None)
    if at is None:
        return backward
    gated = scan.outputs[0]
    again = replace(gated, name=f"{gated.name}.behind")
    waiting, early, late = {gated}, [], []
    for op in backward[:at]:
        if not waiting.isdisjoint(op.inputs):
            late.append(op)
            waiting.update(op.outputs)
        else:  # What another op makes later is held by none before.
            early.append(replace(op, holds=tuple(held for held in op.holds if held not in waiting)))
    gradient = replace(backward[at], outputs=(*backward[at].outputs, again))
    return [*early, gradient, *rewired_all([*late, *backward[at + 1 :]], {gated: again})]


def _with_region(region: list[AbstractOp], kept: set[Tensor], backward: list[AbstractOp]) -> list[AbstractOp]:
    made = {tensor for op in region for tensor in op.outputs if tensor.root not in kept}
    readers = [at for at, op in enumerate(backward) if not made.isdisjoint(op.inputs + op.holds)]
    if not readers:
        return backward
    first = readers[0]
    needed = {tensor for at in readers for tensor in backward[at].inputs + backward[at].holds} & made
    again, twin = _clones(_leading_to(region, made, needed), made, backward[first])
    return [*backward[:first], *again, *rewired_all(backward[first:], twin)]


def _kept(region: list[AbstractOp]) -> set[Tensor]:
    """Return what the function keeps of its own: what its last step reads first, and makes beside its result."""
    last = region[-1]
    return {last.inputs[0].root, *(tensor.root for tensor in last.outputs[1:])}


def _leading_to(region: list[AbstractOp], made: set[Tensor], needed: set[Tensor]) -> list[AbstractOp]:
    """Return the ops of a region that what backward reads depends on, and that are not kept themselves."""
    wanted, ops = {tensor.root for tensor in needed} | needed, []
    for op in reversed(region):
        if any(tensor in made and (tensor in wanted or tensor.root in wanted) for tensor in op.outputs):
            ops.append(op)
            wanted |= {tensor for given in op.inputs for tensor in (given, given.root)}
    return ops[::-1]


def _clones(
    ops: list[AbstractOp], made: set[Tensor], before: AbstractOp
) -> tuple[list[AbstractOp], dict[Tensor, Tensor]]:
    """Return copies of ops in the block of what reads them first, and the twin of each tensor they make."""
    twin: dict[Tensor, Tensor] = {}
    clones = []
    for op in ops:
        outputs = []
        for tensor in op.outputs:
            base = None if tensor.base is None else twin.get(tensor.base, tensor.base)
            outputs.append(replace(tensor, name=f"{tensor.name}.behind", base=base))
        current = rewired(op, twin)
        twin.update((old, new) for old, new in zip(op.outputs, outputs, strict=True) if old in made)
        clone = replace(current, name=f"{op.name}.behind", outputs=tuple(outputs), phase=Phase.RECOMPUTE)
        clones.append(replace(clone, block=before.block, origin=op))
    return clones, twin
