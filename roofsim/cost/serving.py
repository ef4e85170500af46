"""Say which kernels an engine runs in inference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.cost.kernels.work import KernelWork
    from roofsim.graph.base import AbstractOp, Block
    from roofsim.graph.component import Component
    from roofsim.numeric import Real
    from roofsim.spec.engine.schema import Engine


@dataclass(frozen=True, kw_only=True)
class Serving:
    """An engine whose kernels run in a pass of inference.

    Attributes
    ----------
    engine
        The engine as it runs this phase on this card (`roofsim.spec.engine.phase.in_phase`).
    decodes
        Whether the pass adds one token per sequence.
    """

    engine: Engine
    decodes: bool = False


def share_launches(ops: dict[int, AbstractOp], works: dict[int, KernelWork], number: float | None) -> None:
    """Let ops of a layer have a number of launches together; None: their own."""
    if number is None:
        return
    layers: dict[Block | Component | AbstractOp, list[int]] = {}
    for place, op in ops.items():
        layers.setdefault(op.module, []).append(place)
    for places in layers.values():
        total: Real = 0.0
        for place in places:
            total = total + works[place].launches
        for place in places:
            works[place] = replace(works[place], launches=works[place].launches * (number / total))
