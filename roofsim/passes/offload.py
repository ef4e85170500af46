"""Keep optimizer state, gradients, parameters or activations on the host or in storage, with the copies that this takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

from roofsim.graph.base import AbstractOp, Block, Phase
from roofsim.graph.ops import Cast, HostTransfer, HostUpdate, OptimizerUpdate
from roofsim.graph.rewire import rewired
from roofsim.graph.tensor import Role, Tensor
from roofsim.numeric import divide, maximum, minimum

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real

Body = list[AbstractOp]
Segment = tuple[Block | None, Body]

_GRADIENTS: Final = (Role.GRADIENT, Role.GRADIENT_BUFFER)
_BEHIND: Final = (Phase.BACKWARD, Phase.RECOMPUTE)
#: What backward reads and an offloader takes along; weights, inputs and what collectives gathered stay.
_SAVED: Final = (Role.ACTIVATION, Role.TEMPORARY)


@dataclass(frozen=True, kw_only=True)
class OffloadActivations:
    """Send what a unit saves to the host behind its forward, and fetch it before its backward.

    A unit is a layer, or what stands in none before, between and behind them; the last unit's backward follows at once,
    so that it keeps its own (torch.autograd.graph.save_on_cpu on streams of its own, Megatron's and torchtune's
    offloading). Copies of two units are under way or in use at a time.

    Attributes
    ----------
    place
        ``host`` or ``nvme``.
    """

    name: ClassVar[str] = "offload_activations"
    requires: ClassVar[frozenset[str]] = frozenset({"backward"})
    ensures: ClassVar[frozenset[str]] = frozenset({"activations_offloaded"})

    place: str = "host"

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with copies behind forward units and before backward ones."""
        segments = list(graph.segments())
        saved = [self._saved(at, segments) for at in range(len(segments))]
        twins = [
            {t: replace(t, name=f"{t.name}.{self.place}{at}", base=None, place=self.place) for t in tensors}
            for at, tensors in enumerate(saved)
        ]
        ops: Body = []
        for at, (block, body) in enumerate(segments):
            wanted = {
                tensor: away
                for source in self._sources(at, segments)
                for tensor, away in twins[source].items()
                if _read(body, tensor)
            }
            ops += self._unit(at, block, body, wanted, twins[at])
        return graph.replaced(ops, *self.ensures)

    def _saved(self, at: int, segments: list[Segment]) -> list[Tensor]:
        """Return the storages of a forward unit that a later backward unit reads."""
        block, body = segments[at]
        made = {t.root for op in body if op.phase is Phase.FORWARD for t in op.outputs if not _weight(op)}
        if block is not None:
            if block.mirror is not None:
                return []
            made |= {entry.root for entry, _ in block.carries}
        readers = [later for place, later in enumerate(segments) if at in self._sources(place, segments)]
        read = dict.fromkeys(t.root for _, later in readers for op in _backward(later) for t in (*op.inputs, *op.holds))
        return [t for t in read if t in made and t.role in _SAVED and not t.away]

    @staticmethod
    def _sources(at: int, segments: list[Segment]) -> list[int]:
        """Return the forward units whose saved tensors a unit fetches: its mirror, or all that are in no layer."""
        block, body = segments[at]
        if block is not None:
            return [] if block.mirror is None else [n for n, (other, _) in enumerate(segments) if other is block.mirror]
        if not _backward(body):
            return []
        return [n for n, (other, ops) in enumerate(segments[:at]) if other is None and ops[0].phase is Phase.FORWARD]

    def _unit(
        self, at: int, block: Block | None, body: Body, wanted: dict[Tensor, Tensor], leaving: dict[Tensor, Tensor]
    ) -> Body:
        front: Body = []
        if wanted:
            back = {t: replace(t, name=f"{t.name}.back{at}", base=None, role=Role.TEMPORARY) for t in wanted}
            fetch = _transfer(
                "fetch", at, block, self.place, tuple(wanted.values()), tuple(back.values()), Phase.BACKWARD
            )
            first = next(n for n, op in enumerate(body) if op.phase in _BEHIND)
            body = [*body[:first], *_ahead(_rewired_all(body[first:], back), [fetch])]
            front = [*body[:first], fetch]
            body = body[first:]
        if not leaving:
            return [*front, *body]
        send = _transfer("send", at, block, self.place, tuple(leaving), tuple(leaving.values()), Phase.FORWARD)
        return [*front, *_under_way(at, block, body, send, tuple(leaving))]


@dataclass(frozen=True, kw_only=True)
class OffloadParameters:
    """Keep parameters on the host; fetch each unit's before its ops, forward and backward, and drop them behind.

    One unit is fetched ahead of the layer that runs (arXiv 2104.07857, torch FSDP's CPUOffload, FlexGen). Of fully sharded
    parameters it is the shards that are fetched, before they are gathered.

    Attributes
    ----------
    place
        ``host`` or ``nvme``.
    """

    name: ClassVar[str] = "offload_parameters"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"parameters_offloaded"})

    place: str = "host"

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with a copy before each unit."""
        away = {t: replace(t, place=self.place) for t in graph.sources if t.role is Role.PARAMETER}
        ops: Body = []
        for at, (block, body) in enumerate(graph.segments()):
            running = [op for op in body if op.phase is not Phase.OPTIMIZER]
            roots = list(dict.fromkeys(t.root for op in running for t in (*op.inputs, *op.holds) if t.root in away))
            if not roots:
                ops += body
                continue
            here = {
                t: replace(t, name=f"{t.name}.here{at}", role=Role.COMMUNICATION, requires_grad=False) for t in roots
            }
            phase = body[0].phase if body[0].phase in (Phase.FORWARD, Phase.BACKWARD) else Phase.BACKWARD
            sources = tuple(away[t] for t in roots)
            fetch = _transfer("parameters", at, block, self.place, sources, tuple(here.values()), phase)
            ops += _ahead(_rewired_all(body, here), [fetch], with_them=True)
        return graph.replaced(ops, *self.ensures)


@dataclass(frozen=True, kw_only=True)
class OffloadUpdate:
    """Keep the optimizer's state and master parameters on the host, which updates them (ZeRO-Offload, arXiv 2101.06840).

    Gradients travel unit by unit as they come, what was updated travels back. The host makes one pass over what it
    updates, as DeepSpeed's CPUAdam and PyTorch's fused CPU optimizers do.

    Attributes
    ----------
    place
        Where the state lies.
    gradients
        ``device``, or the place where gradients go as soon as a unit has them, for every micro batch; the host adds them.
    returns
        Whether updated parameters travel to the device; those that lie on the host stay there.
    share
        Share of the micro batches after which gradients travel: 1 where the host adds them.
    """

    name: ClassVar[str] = "offload_update"
    requires: ClassVar[frozenset[str]] = frozenset({"optimizer"})
    ensures: ClassVar[frozenset[str]] = frozenset({"update_offloaded"})

    place: str = "host"
    gradients: str = "device"
    returns: bool = True
    share: Real = 1.0

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with gradients that leave, and an update of the host."""
        last = _last_segments(graph)
        part = self._part(graph, last)
        env: dict[Tensor, Tensor] = {}
        if self.gradients != "device":
            env = {t: replace(t, role=Role.TEMPORARY) for t in last if t.role is Role.GRADIENT}
        ops: Body = []
        for at, (block, body) in enumerate(graph.segments()):
            finished = [tensor for tensor, segment in last.items() if segment == at]
            running = [op for op in body if not isinstance(op, OptimizerUpdate)]
            passed = [op for op in running if op.phase is not Phase.OPTIMIZER]
            ops += _with_twins(passed, env)
            if finished:
                ops += self._leave(at, block, [env.get(t, t) for t in finished], part)
            for op in body[len(passed) :]:
                ops += self._updated(op, last) if isinstance(op, OptimizerUpdate) else [op]
        return graph.replaced(ops, *self.ensures)

    @staticmethod
    def _part(graph: OpGraph, last: dict[Tensor, int]) -> Real:
        """Return the share of the device's gradients that this rank updates: less than all with ZeRO-1."""
        blocks = [block for block, _ in graph.segments()]
        held: Real = 0.0
        for tensor, at in last.items():
            block = blocks[at]
            held = held + tensor.numel * (1.0 if block is None else block.repeat)
        updated: Real = 0.0
        for op in graph:
            if isinstance(op, OptimizerUpdate):
                updated = updated + op.elements
        return minimum(divide(updated, held), 1.0)

    def _leave(self, at: int, block: Block | None, gradients: list[Tensor], part: Real) -> Body:
        """Return the copy of a unit's gradients, and their sum on the host where several micro batches send them."""
        place = self.place if self.gradients == "device" else self.gradients
        away = tuple(
            replace(t, name=f"{t.name}.{place}{at}", base=None, role=Role.GRADIENT, place=place) for t in gradients
        )
        send = _transfer("gradients", at, block, place, tuple(gradients), away, Phase.BACKWARD)
        send = replace(send, part=part, share=self.share, last=self.gradients == "device")
        added = 1.0 - self.share if self.gradients == "device" else self._added()
        if self.gradients == "device" or (type(added) is float and added == 0.0):
            return [send]
        size, elements = _total(t.bytes for t in gradients) * part, _total(t.numel for t in gradients) * part
        on_disk = size if place == "nvme" else 0.0
        return [
            send,
            HostUpdate(
                name=f"host.add.{at}", method="accumulate", elements=elements, read=2.0 * size, written=size,
                fetched=on_disk, stored=on_disk, flops_per_element=1.0, phase=Phase.BACKWARD, block=block, share=added,
            ),
        ]  # fmt: skip

    def _added(self) -> Real:
        return 1.0 - self.share

    def _updated(self, op: OptimizerUpdate, last: dict[Tensor, int]) -> Body:
        """Return the host's update in the place of the device's, and what travels back."""
        stored = op.stored
        assert stored is not None
        state = [replace(t, place=self.place) for t in op.inputs]
        master = any(t.role is Role.MASTER_PARAMETER for t in state)
        if not master and self.returns:
            state.append(Tensor("host.parameters", (op.elements,), stored, Role.MASTER_PARAMETER, place=self.place))
        kept = _total(t.numel * t.dtype.itemsize for t in state)
        low = op.elements * stored.itemsize
        staying = 0.0 if self.returns or master else low
        copy = low if master else 0.0
        gradient = op.elements * max((t.dtype.itemsize for t in last), key=float, default=0.0)
        on_disk = kept if self.place == "nvme" else 0.0
        update = HostUpdate(
            name=op.name.replace("optimizer.", "host_optimizer."), phase=Phase.OPTIMIZER, inputs=tuple(state),
            method=op.method, elements=op.elements, read=kept + staying + gradient, written=kept + staying + copy,
            fetched=on_disk, stored=on_disk, flops_per_element=op.flops_per_element,
        )  # fmt: skip
        if not self.returns:
            return [update]
        source = Tensor(f"{update.name}.result", (op.elements,), stored, Role.MASTER_PARAMETER, place="host")
        arrived = Tensor(f"{update.name}.parameters", (op.elements,), stored, Role.PARAMETER)
        back = HostTransfer(
            name=f"{update.name}.return", inputs=(), outputs=(), direction="from_host", place="host", moved=(arrived,),
            phase=Phase.OPTIMIZER,
        )  # fmt: skip
        del source
        return [update, back]


def _transfer(
    what: str, at: int, block: Block | None, place: str, sources: tuple[Tensor, ...], results: tuple[Tensor, ...],
    phase: Phase,
) -> HostTransfer:  # fmt: skip
    direction = "to_host" if results[0].away else "from_host"
    unit = "rest" if block is None else block.name
    return HostTransfer(
        name=f"offload.{what}.{unit}.{at}", inputs=sources, outputs=results, direction=direction, place=place,
        moved=results, phase=phase, block=block,
    )  # fmt: skip


def _beside(block: Block | None, tensors: Iterable[Tensor], suffix: str) -> tuple[Tensor, ...]:
    """Return the space of a second unit, where there is one."""
    if block is None:
        return ()
    more = maximum(minimum(block.repeat - 1.0, 1.0), 0.0)
    return tuple(
        replace(t, name=f"{t.name}.{suffix}", shape=(t.numel * more,), base=None, place="device") for t in tensors
    )


def _ahead(body: Body, fetches: list[HostTransfer], *, with_them: bool = False) -> Body:
    """Let each fetch take the space of the next unit's, which is held to the end of the body."""
    result: Body = list(body)
    made: Body = []
    for fetch in fetches:
        space = _beside(fetch.block, fetch.moved, "ahead")
        made.append(replace(fetch, outputs=(*fetch.outputs, *space)))
        if space:
            result[-1] = replace(result[-1], holds=(*result[-1].holds, *space))
    return [*made, *result] if with_them else result
