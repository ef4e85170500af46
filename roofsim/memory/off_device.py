"""Count what lies on the host or in storage instead of on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.tensor import Role
from roofsim.numeric import Real, maximum

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor

_PART_OF: Final = {
    Role.PARAMETER: "parameters",
    Role.MASTER_PARAMETER: "optimizer_state",
    Role.OPTIMIZER_STATE: "optimizer_state",
    Role.GRADIENT: "gradients",
    Role.KEY_VALUE_CACHE: "key_value_cache",
}


def off_device_bytes(graph: OpGraph, held: Real = 1.0) -> dict[str, dict[str, Real]]:
    """Return the bytes of one rank by place (``host``, ``nvme`` ...) and part: parameters, optimizer_state, gradients ...

    `held` micro batches keep their activations at once.
    """
    by_place: dict[str, dict[str, Real]] = {}

    def add(tensor: Tensor, copies: Real) -> None:
        if tensor.off_device:
            part = _PART_OF.get(tensor.role, "activations")
            times = copies * maximum(held, 1.0) if part == "activations" else copies
            parts = by_place.setdefault(tensor.place, {})
            parts[part] = parts.get(part, 0.0) + tensor.bytes * times

    for tensor, reader in graph.sources.items():
        add(tensor, reader.repeats)
    for op in graph:
        part = getattr(op, "part", 1.0)
        for tensor in op.outputs:
            add(tensor, op.repeats * part)
    return by_place
