"""Keep the optimizer's state on the host or in storage and let the host update the parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from roofsim.graph.base import AbstractOp, Block, Phase
from roofsim.graph.ops import HostTransfer, HostUpdate, OptimizerUpdate
from roofsim.graph.rewire import rewired
from roofsim.graph.tensor import Role, Tensor
from roofsim.numeric import divide, minimum, same
from roofsim.records import dataclass, replace
from roofsim.spec.scenario.offload import HOST, TIERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real

Body = list[AbstractOp]

_GRADIENTS: Final = (Role.GRADIENT, Role.GRADIENT_BUFFER)
DEVICE: Final = "device"


@dataclass(frozen=True, kw_only=True)
class OffloadUpdate:
    """Keep the optimizer's state and master parameters on the host, which updates them (ZeRO-Offload, arXiv 2101.06840).

    Gradients travel unit by unit as they come, updated parameters travel back. The host makes one pass over gradients,
    state and parameters, as DeepSpeed's CPUAdam and PyTorch's fused CPU optimizers do.

    Attributes
    ----------
    place
        Where the state lies.
    gradients
        ``device``, or where gradients go as soon as a unit has them, in every micro batch; the host adds them up.
    parameters
        ``device``, to which updated parameters travel, or where they lie and stay.
    micro_batches
        Micro batches of a step.
    """

    name: ClassVar[str] = "offload_update"
    requires: ClassVar[frozenset[str]] = frozenset({"optimizer"})
    ensures: ClassVar[frozenset[str]] = frozenset({"update_offloaded"})

    place: str = "host"
    gradients: str = DEVICE
    parameters: str = DEVICE
    micro_batches: Real = 1.0

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with gradients that leave, and an update on the host."""
        last = _last_segments(graph)
        part, width = _extent(graph, last)
        env: dict[Tensor, Tensor] = {}
        if self.gradients != DEVICE:
            env = {t: replace(t, role=Role.TEMPORARY) for t in last if t.role is Role.GRADIENT}
        ops: Body = []
        for at, (block, body) in enumerate(graph.segments()):
            finished = [env.get(tensor, tensor) for tensor, segment in last.items() if segment == at]
            before = [op for op in body if op.phase is not Phase.OPTIMIZER]
            ops += [_with_twins(op, env) for op in before]
            if finished:
                ops += self._leaving(at, block, finished, part)
            for op in body:
                if op.phase is Phase.OPTIMIZER:
                    ops += self._updated(op, width) if isinstance(op, OptimizerUpdate) else [op]
        return graph.replaced(ops, *self.ensures)

    def _leaving(self, at: int, block: Block | None, gradients: list[Tensor], part: Real) -> Body:
        """Return the copy of a unit's gradients, and their sum on the host where every micro batch sends some."""
        stays = self.gradients == DEVICE
        place = HOST if stays else self.gradients
        off_device = tuple(
            replace(t, name=f"{t.name}.{place}{at}", base=None, role=Role.GRADIENT, place=place) for t in gradients
        )
        unit = f"{'rest' if block is None else block.name}.{at}"
        send = HostTransfer(
            name=f"offload.gradients.{unit}",
            inputs=tuple(gradients),
            outputs=off_device,
            direction="to_host",
            place=place,
            moved=off_device,
            part=part,
            phase=Phase.BACKWARD,
            block=block,
            last=stays,
            share=1.0 / self.micro_batches if stays else 1.0,
        )
        if stays or same(self.micro_batches, 1.0):
            return [send]
        size = _total(t.bytes for t in gradients) * part
        on_disk = size if TIERS[place].storage else 0.0
        add = HostUpdate(
            name=f"host.add.{unit}",
            method="accumulate",
            elements=_total(t.numel for t in gradients) * part,
            read=2.0 * size,
            written=size,
            fetched=on_disk,
            stored=on_disk,
            distant=2.0 * size + size if _is_distant(place) else 0.0,
            place=place,
            flops_per_element=1.0,
            phase=Phase.BACKWARD,
            block=block,
            share=1.0 - 1.0 / self.micro_batches,
        )
        return [send, add]

    def _updated(self, op: OptimizerUpdate, width: Real) -> Body:
        """Return the host's update in the place of the device's, and the parameters that it sends back."""
        stored = op.stored
        assert stored is not None
        state = [replace(t, place=self.place) for t in op.inputs]
        low = op.elements * stored.itemsize
        master = any(t.role is Role.MASTER_PARAMETER for t in state)
        returns = self.parameters == DEVICE
        if not master and returns:
            state.append(Tensor("host.parameters", (op.elements,), stored, Role.MASTER_PARAMETER, place=self.place))
        held = _total(t.bytes for t in state)
        read, written = (0.0 * low, 0.0 * low) if returns and not master else (low * (not master), low)
        gradient = op.elements * width
        gradients_at = HOST if self.gradients == DEVICE else self.gradients
        parts = [
            _Touched(self.place, held, held),
            _Touched(gradients_at, gradient, 0.0 * gradient),
            _Touched(HOST if returns else self.parameters, read, written),
        ]
        place = gradients_at if self.place == HOST else self.place
        near = [part for part in parts if part.place == place or not _is_distant(part.place)]
        update = HostUpdate(
            name=f"host.{op.name}",
            phase=Phase.OPTIMIZER,
            inputs=tuple(state),
            method=op.method,
            elements=op.elements,
            read=_total(part.read for part in near),
            written=_total(part.written for part in near),
            flops_per_element=op.flops_per_element,
            **_beyond(parts, place),
        )
        if not returns:
            return [update, *_elsewhere(op, parts, update)]
        arrived = Tensor(f"{update.name}.parameters", (op.elements,), stored, Role.PARAMETER)
        back = HostTransfer(
            name=f"offload.updated.{op.name}",
            direction="from_host",
            place="host",
            moved=(arrived,),
            phase=Phase.OPTIMIZER,
        )
        return [update, back]


@dataclass(frozen=True)
class _Touched:
    """Bytes that an update reads and writes at a place."""

    place: str
    read: Real
    written: Real


def _beyond(parts: list[_Touched], place: str) -> dict[str, Any]:
    """Return which of the bytes that an update touches lie at a place that is not host memory."""
    there = [part for part in parts if part.place == place]
    read, written = _total(part.read for part in there), _total(part.written for part in there)
    disk, distant = TIERS[place].storage, _is_distant(place)
    return {
        "place": place,
        "fetched": read if disk else 0.0,
        "stored": written if disk else 0.0,
        "distant": read + written if distant else 0.0,
    }


def _elsewhere(op: OptimizerUpdate, parts: list[_Touched], update: HostUpdate) -> Body:
    """Return what an update moves of parameters that lie neither in host memory nor where the state does."""
    own = parts[-1]
    if own.place in (HOST, update.place):
        return []
    passes = 1.0 if _is_distant(own.place) else 0.0  # what storage gives is read in host memory, as all else is
    return [
        HostUpdate(
            name=f"host.parameters.{op.name}",
            phase=Phase.OPTIMIZER,
            method="parameters",
            elements=op.elements,
            read=own.read * passes,
            written=own.written * passes,
            flops_per_element=0.0,
            **_beyond([own], own.place),
        )
    ]


def _is_distant(place: str) -> bool:
    """Tell whether processors load from a place, but over another link than that of their own memory."""
    return place != HOST and not TIERS[place].storage


def _extent(graph: OpGraph, last: dict[Tensor, int]) -> tuple[Real, Real]:
    """Return which part of the gradients this rank updates (less than all with ZeRO-1), and their bytes per element."""
    blocks = [block for block, _ in graph.segments()]
    elements: Real = 0.0
    size: Real = 0.0
    for tensor, at in last.items():
        block = blocks[at]
        copies = 1.0 if block is None else block.repeat
        elements, size = elements + tensor.numel * copies, size + tensor.bytes * copies
    updated = _total(op.elements for op in graph if isinstance(op, OptimizerUpdate))
    return minimum(divide(updated, elements), 1.0), divide(size, elements)


def _last_segments(graph: OpGraph) -> dict[Tensor, int]:
    """Return, for each gradient storage, the run of ops that writes it last."""
    last: dict[Tensor, int] = {}
    for at, (_, body) in enumerate(graph.segments()):
        for op in body:
            last |= {t.root: at for t in op.outputs if t.root.role in _GRADIENTS}
    return last


def _with_twins(op: AbstractOp, env: dict[Tensor, Tensor]) -> AbstractOp:
    """Return an op whose gradients are their twins, which die behind their last reader; views follow."""
    if not env:
        return op
    new = rewired(op, env)
    env.update((old, out) for old, out in zip(op.outputs, new.outputs, strict=True) if old is not out)
    return replace(new, outputs=tuple(env.get(tensor, tensor) for tensor in new.outputs))


def _total(amounts: Iterable[Real]) -> Real:
    total: Real = 0.0
    for amount in amounts:
        total = total + amount
    return total
