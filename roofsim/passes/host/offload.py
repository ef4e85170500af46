"""Keep parameters, caches or activations on the host or in storage, with the copies that this takes unit by unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from roofsim.graph.base import AbstractOp, Block, Phase
from roofsim.graph.ops import CacheAppend, Cast, HostCompute, HostTransfer, parts_of
from roofsim.graph.rewire import rewired_all
from roofsim.graph.split import split_blocks
from roofsim.graph.tensor import Role, Tensor
from roofsim.numeric import any_above, divide, is_none, maximum, minimum
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.split import Unit
    from roofsim.numeric import Real

Body = list[AbstractOp]
Segment = tuple[Block | None, Body]

_BEHIND: Final = (Phase.BACKWARD, Phase.RECOMPUTE)
#: Roles of what is taken along; weights, inputs and what collectives gathered stay.
_SAVED: Final = (Role.ACTIVATION, Role.TEMPORARY)


@dataclass(frozen=True, kw_only=True)
class OffloadParameters:
    """Keep parameters on the host; fetch each unit's before its ops, forward and backward, and drop them behind.

    A unit is a layer, or a run of ops that belong to none. One layer is fetched ahead of the one that runs (arXiv
    2104.07857; torch FSDP's CPUOffload; FlexGen, arXiv 2303.06865). Of fully sharded parameters it is the shards that
    are fetched, before they are gathered.

    Attributes
    ----------
    place
        A place of `roofsim.spec.scenario.offload`.
    share
        Not all of them, but those of this share of the layers; in inference.
    leading
        Whether these are the first layers (``-ngl`` of llama.cpp counts the others), or as many of each block.
    computed
        Share of the passes in which the host computes these layers itself: 0, 1, or an array of such.
    with_cache
        Whether keys and values of these layers lie there too.
    """

    name: ClassVar[str] = "offload_parameters"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"parameters_offloaded"})

    place: str = "host"
    share: Real | None = None
    leading: bool = False
    computed: Real = 0.0
    with_cache: bool = False

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with a copy before each unit, or with units that the host computes."""
        units = units_of(graph, self.share, self.place, leading=self.leading)
        off_device = {
            t: replace(t, place=self.place)
            for body, leaves in ((body, leaves) for _, body, leaves in units if leaves)
            for t in _roots(body)
            if t.role is Role.PARAMETER
        }
        ops: Body = []
        for at, (block, body, leaves) in enumerate(units):
            if not leaves:
                ops += body
                continue
            later = _read_later(block, [op for _, other, _ in units[at + 1 :] for op in other])
            ops += self._unit(at, block, body, off_device, later)
        return graph.replaced(ops, *self.ensures)

    def _unit(
        self, at: int, block: Block | None, body: Body, off_device: dict[Tensor, Tensor], later: set[Tensor]
    ) -> Body:
        """Return a unit whose parameters are fetched, or that the host computes, or either in some elements of arrays."""
        on_host, copied = any_above(self.computed, 0.0), any_above(1.0 - self.computed, 0.0)
        if not on_host:
            return fetching(at, block, self._offload_cache(at, block, body), off_device, self.place)
        work = _computed(block, body, off_device, self.place, at, self.computed)
        if work is None:
            return body
        if not copied:
            outputs = tuple(t for op in body for t in op.outputs if t in later)
            return [replace(work, outputs=outputs)]
        seldom = [replace(op, share=op.share * (1.0 - self.computed)) for op in body]
        fetched = fetching(at, block, self._offload_cache(at, block, seldom), off_device, self.place)
        fetched = [replace(op, share=1.0 - self.computed) if isinstance(op, HostTransfer) else op for op in fetched]
        return [*fetched, replace(work, inputs=tuple(t for t in work.inputs if not t.root.off_device))]

    def _offload_cache(self, at: int, block: Block | None, body: Body) -> Body:
        return _caching(at, block, body, self.place) if self.with_cache else body


def units_of(graph: OpGraph, share: Real | None, place: str, *, leading: bool) -> list[Unit]:
    """Return layers and what is in none, each with whether its parameters leave the device: all, or a `share` of the layers."""
    if share is None:
        return [(block, body, True) for block, body in graph.segments()]
    counts: list[Real] = []
    whole: Real = 0.0
    for block in graph.blocks:
        whole = whole + block.repeat
    left = whole * share
    for block in graph.blocks:
        leaving = block.repeat * share
        if leading:
            leaving = minimum(left, block.repeat)
            left = left - leaving
        counts.append(leaving)
    return split_blocks(graph, counts, place)


def fetching(at: int, block: Block | None, body: Body, off_device: dict[Tensor, Tensor], place: str) -> Body:
    """Return a unit whose weights are fetched before it: `off_device` has each with its twin in a `place`."""
    here = {
        t: replace(t, name=f"{t.name}.here{at}", role=Role.COMMUNICATION, requires_grad=False)
        for t in _roots(op for op in body if op.phase is not Phase.OPTIMIZER)
        if t in off_device
    }
    if not here:
        return body
    phase = Phase.FORWARD if body[0].phase is Phase.FORWARD else Phase.BACKWARD
    fetch = HostTransfer(
        name=_name("parameters", block, at),
        inputs=tuple(off_device[t] for t in here),
        outputs=tuple(here.values()),
        direction="from_host",
        place=place,
        moved=tuple(here.values()),
        phase=phase,
        block=block,
    )
    return _fetched(fetch, body, here)


@dataclass(frozen=True, kw_only=True)
class OffloadCache:
    """Keep keys and values on the host: each layer's are fetched before it attends to them, new ones are sent behind it.

    One layer is fetched ahead of the one that runs, as with parameters (FlexGen, arXiv 2303.06865, without its attention on
    the host; OffloadedCache of transformers). What a pass adds is not fetched.
    """

    name: ClassVar[str] = "offload_cache"
    requires: ClassVar[frozenset[str]] = frozenset({"typed"})
    ensures: ClassVar[frozenset[str]] = frozenset({"cache_offloaded"})

    place: str = "host"

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with copies before and behind each unit that has a cache."""
        ops: Body = []
        for at, (block, body) in enumerate(graph.segments()):
            ops += _caching(at, block, body, self.place)
        return graph.replaced(ops, *self.ensures)


def _caching(at: int, block: Block | None, body: Body, place: str) -> Body:
    """Return a unit whose cache is fetched before it, and which sends what it adds."""
    computed = {t.root for op in body if isinstance(op, HostCompute) for t in op.inputs}
    caches = [t for t in _roots(body) if t.role is Role.KEY_VALUE_CACHE and not t.off_device and t not in computed]
    if not caches:
        return body
    added: list[Tensor] = []
    here: dict[Tensor, Tensor] = {}
    whole: Real = 0.0
    new: Real = 0.0
    for cache in caches:
        parts = (part for op in body for part in parts_of(op))
        append = next((part for part in parts if isinstance(part, CacheAppend) and part.inputs[1].root is cache), None)
        # The cache of other micro batches, and what the last page has room for, stays where it is.
        shape = cache.shape if append is None else append.outputs[0].shape
        here[cache] = replace(
            cache, name=f"{cache.name}.here{at}", shape=shape, role=Role.COMMUNICATION, requires_grad=False
        )
        whole = whole + here[cache].bytes
        if append is not None:
            rows = append.inputs[0]
            added.append(replace(rows, name=f"{cache.name}.new{at}", base=None, dtype=cache.dtype))
            new = new + added[-1].bytes
    off_device = tuple(replace(t, place=place) for t in caches)
    fetch = HostTransfer(
        name=_name("cache", block, at),
        inputs=off_device,
        outputs=tuple(here.values()),
        direction="from_host",
        place=place,
        moved=tuple(here.values()),
        part=divide(maximum(whole - new, 0.0), whole),
        block=block,
    )
    ops = _fetched(fetch, body, here)
    if not added:
        return ops
    send = HostTransfer(
        name=_name("cached", block, at),
        direction="to_host",
        place=place,
        moved=tuple(added),
        block=block,
    )
    return [*ops, send]


def _computed(
    block: Block | None, body: Body, off_device: dict[Tensor, Tensor], place: str, at: int, share: Real
) -> HostCompute | None:
    """Return a unit as the host computes it: it reads the weights that the device would have, and the cache."""
    stored = [t for t in _roots(body) if t.role in (Role.PARAMETER, Role.KEY_VALUE_CACHE)]
    if not any(t.role is Role.PARAMETER for t in stored):
        return None
    read: Real = 0.0
    operations: Real = 0.0
    for op in body:
        operations = operations + op.flops() * op.share
        if any(t.root in stored for t in op.inputs) and not isinstance(op, CacheAppend):
            read = read + op.bytes_read() * op.share
    made = {t for op in body for t in op.outputs}
    entering = [t for t in dict.fromkeys(t for op in body for t in op.inputs) if t not in made and t.root not in stored]
    there = [off_device.get(t) or replace(t, place=place) for t in stored]
    return HostCompute(
        name=_name("computed", block, at),
        inputs=(*entering, *there),
        read=read,
        operations=operations,
        block=block,
        share=share,
    )


def _read_later(block: Block | None, ops: Body) -> set[Tensor]:
    """Return what ops behind a unit read of it, and what its next iteration does."""
    read = {t for op in ops for t in (*op.inputs, *op.holds)}
    read |= set() if block is None else {leaving for _, leaving in block.carries}
    return read | {t.root for t in read}


@dataclass(frozen=True, kw_only=True)
class OffloadActivations:
    """Send what a unit saves to the host behind its forward, and fetch it before its backward.

    A unit is a layer, or a run of ops that belong to none; the last one's backward follows at once, so that it keeps what
    it saves (torch.autograd.graph.save_on_cpu on streams of its own; Megatron's and torchtune's offloading). What one
    layer saves is under way while the next one runs, and is fetched while the one before it does.

    Attributes
    ----------
    place
        A place of `roofsim.spec.scenario.offload`.
    """

    name: ClassVar[str] = "offload_activations"
    requires: ClassVar[frozenset[str]] = frozenset({"backward"})
    ensures: ClassVar[frozenset[str]] = frozenset({"activations_offloaded"})

    place: str = "host"

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the graph with copies behind forward units and before backward ones."""
        segments = list(graph.segments())
        off_device = [self._leaving(at, segments) for at in range(len(segments))]
        ops: Body = []
        for at, (block, body) in enumerate(segments):
            read = set(_roots(op for op in body if op.phase in _BEHIND))
            wanted = {t: twin for n in _sources(at, segments) for t, twin in off_device[n].items() if t.root in read}
            if wanted:
                ops += self._arriving(at, block, body, wanted)
            elif off_device[at]:
                ops += self._departing(at, block, body, off_device[at])
            else:
                ops += body
        return graph.replaced(ops, *self.ensures)

    def _leaving(self, at: int, segments: list[Segment]) -> dict[Tensor, Tensor]:
        """Return what a later backward unit reads of a forward unit, with its twin on the host."""
        block, body = segments[at]
        made = {t.root: t.root for op in body if not _casts_weight(op) for t in op.outputs}
        if block is not None:
            made |= {entry.root: entry for entry, _ in block.carries}
        readers = [ops for n, (_, ops) in enumerate(segments) if at in _sources(n, segments)]
        read = _roots(op for ops in readers for op in ops if op.phase in _BEHIND)
        return {
            made[t]: replace(made[t], name=f"{made[t].name}.{self.place}{at}", base=None, place=self.place)
            for t in read
            if t in made and t.role in _SAVED and not t.off_device
        }

    def _departing(self, at: int, block: Block | None, body: Body, off_device: dict[Tensor, Tensor]) -> Body:
        send = HostTransfer(
            name=_name("send", block, at),
            inputs=tuple(off_device),
            outputs=tuple(off_device.values()),
            direction="to_host",
            place=self.place,
            moved=tuple(off_device.values()),
            block=block,
        )
        space = _second(block, off_device, "leaving")
        if not space:
            return [*body, send]
        # The layer before is still on its way: its space is taken until this one leaves.
        under_way = replace(send, name=_name("leaving", block, at), inputs=(), outputs=space, moved=())
        return [under_way, *body, replace(send, holds=space)]

    def _arriving(self, at: int, block: Block | None, body: Body, wanted: dict[Tensor, Tensor]) -> Body:
        back = {
            t: replace(t, name=f"{t.name}.back{at}", base=None, role=Role.TEMPORARY, requires_grad=False)
            for t in wanted
        }
        fetch = HostTransfer(
            name=_name("fetch", block, at),
            inputs=tuple(wanted.values()),
            outputs=tuple(back.values()),
            direction="from_host",
            place=self.place,
            moved=tuple(back.values()),
            phase=Phase.BACKWARD,
            block=block,
        )
        first = next(n for n, op in enumerate(body) if op.phase in _BEHIND)
        return [*body[:first], *_fetched(fetch, body[first:], back)]


def _fetched(fetch: HostTransfer, body: Body, here: dict[Tensor, Tensor]) -> Body:
    """Return a body that reads what was fetched, and leaves room for what the next one of its block will."""
    made = {t for op in body for t in op.outputs}
    by_root = {t.root: twin for t, twin in here.items()}
    views = {
        t: replace(t, name=f"{t.name}.{fetch.name}", base=by_root[t.root])
        for t in dict.fromkeys(t for op in body for t in (*op.inputs, *op.holds))
        if t.root in by_root and t not in here and t is not t.root and t not in made
    }
    space = _second(fetch.block, fetch.moved, "ahead")
    rewritten = rewired_all(body, by_root | here | views)
    if space:
        rewritten[-1] = replace(rewritten[-1], holds=(*rewritten[-1].holds, *space))
    return [replace(fetch, outputs=(*fetch.outputs, *views.values(), *space)), *rewritten]


def _second(block: Block | None, tensors: Iterable[Tensor], suffix: str) -> tuple[Tensor, ...]:
    """Return the space of a second layer's tensors, where there is one."""
    if block is None or is_none(block.repeat - 1.0):
        return ()
    more = maximum(minimum(block.repeat - 1.0, 1.0), 0.0)
    role = {Role.ACTIVATION: Role.TEMPORARY}
    return tuple(
        replace(t, name=f"{t.name}.{suffix}", shape=(t.numel * more,), base=None, role=role.get(t.role, t.role))
        for t in tensors
    )


def _sources(at: int, segments: list[Segment]) -> list[int]:
    """Return the forward units whose tensors a unit fetches: the layer it mirrors, or all that belong to no layer."""
    block, body = segments[at]
    if block is not None:
        return [] if block.mirror is None else [n for n, (other, _) in enumerate(segments) if other is block.mirror]
    if all(op.phase is Phase.FORWARD for op in body):
        return []
    return [
        n
        for n, (other, ops) in enumerate(segments[:at])
        if other is None and all(op.phase is Phase.FORWARD for op in ops)
    ]


def _roots(ops: Iterable[AbstractOp]) -> list[Tensor]:
    """Return the storages that ops read or hold, in order."""
    return list(dict.fromkeys(t.root for op in ops for t in (*op.inputs, *op.holds)))


def _casts_weight(op: AbstractOp) -> bool:
    return isinstance(op, Cast) and op.inputs[0].root.role is Role.PARAMETER


def _name(what: str, block: Block | None, at: int) -> str:
    return f"offload.{what}.{'rest' if block is None else block.name}.{at}"
