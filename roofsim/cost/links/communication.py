"""Price the collectives of a graph: seconds of one pass by phase and group, and which links they take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.base import Phase
from roofsim.graph.ops import Collective
from roofsim.numeric import divide, maximum, minimum, where
from roofsim.points import by_value
from roofsim.records import dataclass, fields, replace
from roofsim.traced.points import keyed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim.cost.links.collectives import CollectiveTime, Fabric
    from roofsim.cost.scales import Scales
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real
    from roofsim.spec.scenario.layout import Layout

#: What a point-to-point message is to the fabric; the receiver only waits.
_PRICED_AS: Final = {"send": "send_recv", "ring": "send_recv"}
FREE: Final = ("identity", "receive")
#: Groups whose traffic runs beside arithmetic, so that what it does to the GPU's own links matters.
_CONTEXT: Final = ("context", "context_ring")
_REPLICAS: Final = ("data", "replica")
_EXPERTS: Final = ("expert", "expert_tensor")
_OVERLAPPED: Final = (*_REPLICAS, *_CONTEXT, *_EXPERTS)
_UNLIMITED: Final = float(2**60)


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Seconds of collectives: on links inside a node, and between nodes.

    `local` is the time that the GPU's own links are busy with it, whatever limits it; `waited` the seconds for which
    attention waits whatever runs, `beside` the share of attention that the rest of a context group's may run beside;
    `last` the seconds of the last message, or bucket of messages, of a phase.
    """

    intra_node: Real = 0.0
    inter_node: Real = 0.0
    local: Real = 0.0
    waited: Real = 0.0
    beside: Real = 0.0
    last: Real = 0.0

    @property
    def seconds(self) -> Real:
        """All of it."""
        return self.intra_node + self.inter_node

    def plus(self, other: Traffic, times: Real = 1.0) -> Traffic:
        """Return the sum."""
        return Traffic(
            intra_node=self.intra_node + other.intra_node * times,
            inter_node=self.inter_node + other.inter_node * times,
            local=self.local + other.local * times,
            waited=self.waited + other.waited * times,
            beside=maximum(self.beside, other.beside),
            last=where(other.last > 0.0, other.last, self.last),
        )

    def mapped(self, change: Callable[[Real], Real]) -> Traffic:
        """Return it with every number changed."""
        return Traffic(**{field.name: change(getattr(self, field.name)) for field in fields(self)})

    def times(self, factor: Real) -> Traffic:
        """Return a share of it."""
        return Traffic().plus(self, factor)


def _reduction(op: Collective) -> tuple[object, ...] | None:
    """Return which gradients a collective reduces: those that may share its buckets have the same; None: it reduces none."""
    if (
        op.group_of not in _REPLICAS
        or op.phase is Phase.OPTIMIZER
        or op.function not in ("all_reduce", "reduce_scatter")
    ):
        return None
    return op.function, op.group_of, op.of_experts, op.phase


@dataclass(frozen=True, kw_only=True)
class Messages:
    """How a layout's messages travel.

    Attributes
    ----------
    fabric, layout
        The links, and which ranks make up a group.
    split_messages
        Whether a pipeline message is split over the tensor ranks that all hold it.
    own_kernels
        Engine that brings its own all-reduce between tensor ranks; None: the collective library's.
    waits
        Seconds that tensor ranks wait for one another at each collective, in a node and between nodes.
    bucket, in_buckets
        Bytes of gradients that travel together, if layers are smaller (0: each layer's by themselves), and whether they do so
        here: fully sharded gradients travel layer by layer.
    silent
        Tells of a collective whether it takes no time (an ablation); None: all take theirs.
    """

    fabric: Fabric
    layout: Layout
    split_messages: bool = False
    own_kernels: str | None = None
    waits: tuple[float, float] = (0.0, 0.0)
    bucket: Real = 0.0
    in_buckets: bool = False
    silent: Callable[[Collective], bool] | None = None

    def traffic(
        self, graph: OpGraph, scales: Scales, seen: dict[tuple[object, ...], Traffic] | None = None
    ) -> dict[tuple[str, str], Traffic]:
        """Return the traffic of one pass over a graph by phase and group.

        `seen` holds messages that were priced before, over the same links: layers and stages send the same ones again and again.
        """
        totals: dict[tuple[str, str], Traffic] = {}
        seen = {} if seen is None else seen
        ops = [op for op in graph if isinstance(op, Collective) and op.function not in FREE]
        reduced = self._reduced(ops)
        for op in ops:
            together = reduced.get(_reduction(op))
            if together is None:
                one = self._remembered(op, scales, seen)
            else:
                message = keyed(maximum(minimum(self.bucket, together), op.message()))
                one = self._remembered(op, scales, seen, message).times(divide(op.message(), message))
            if op.group_of in _REPLICAS:
                one = replace(one, last=self._bucket_of(op, one))
            key = (str(op.phase), op.group_of)
            totals[key] = totals.get(key, Traffic()).plus(one, op.count)
        return totals

    def _reduced(self, ops: Sequence[Collective]) -> dict[tuple[object, ...] | None, Real]:
        """Return the bytes of gradients that each group of replicas reduces, where they travel in buckets.

        All layers' bytes at once, however many micro batches lie between two reductions: repeats, not counts a pass.
        """
        sums: dict[tuple[object, ...] | None, Real] = {}
        for op in ops if self.in_buckets else ():
            key = _reduction(op)
            if key is not None:
                sums[key] = sums.get(key, 0.0) + op.message() * op.repeats
        return sums

    def _bucket_of(self, op: Collective, whole: Traffic) -> Real:
        """Return the seconds of a bucket: a unit's gradients or more; of updated parameters, which are one op, a part."""
        share = self.bucket / maximum(op.message(), 1.0)
        return whole.seconds * (minimum(share, 1.0) if op.phase is Phase.OPTIMIZER else maximum(share, 1.0))

    def _remembered(
        self,
        op: Collective,
        scales: Scales,
        seen: dict[tuple[object, ...], Traffic],
        bucket: Real | None = None,
    ) -> Traffic:
        """Return the traffic of an op's message, or of the bucket that it travels in."""
        if self.silent is not None and self.silent(op):
            return Traffic()
        message = op.message() if bucket is None else bucket
        sizes = (op.ranks, message, op.steps, op.beside, op.per_token, op.groups, op.chosen)
        same = (op.function, op.group_of, op.of_experts, *by_value(sizes))
        if same not in seen:
            seen[same] = self._one(op, scales, message)
        return seen[same]

    def _one(self, op: Collective, scales: Scales, message: Real) -> Traffic:
        duration = self.time_of(op, scales, message)
        own = duration.intra_node
        if op.group_of in _OVERLAPPED:
            own = self.time_of(op, replace(scales, inter_node_link=_UNLIMITED), message).intra_node
        # Latency belongs to the links that the message takes: the network's, where it leaves the node.
        inter = duration.inter_node + where(duration.inter_node > 0.0, duration.latency, 0.0)
        near, far = self._waits(op, inter)
        one = Traffic(intra_node=duration.seconds - inter + near, inter_node=inter + far, local=own)
        if op.group_of not in _CONTEXT:
            return one
        free = minimum(op.beside * op.ranks / maximum(op.steps, 1.0), 1.0)
        return replace(one.times(op.steps), waited=one.seconds * op.steps * (1.0 - free), beside=op.beside)

    def _waits(self, op: Collective, between: Real) -> tuple[Real, Real]:
        """Return what tensor ranks wait for one another at a collective, in a node or (`between` takes time) outside."""
        if op.group_of != "tensor" or self.waits == (0.0, 0.0):
            return 0.0, 0.0
        used, leaves = where(op.ranks > 1.0, 1.0, 0.0), where(between > 0.0, 1.0, 0.0)
        return self.waits[0] * used * (1.0 - leaves), self.waits[1] * used * leaves

    def time_of(self, op: Collective, scales: Scales, message: Real | None = None) -> CollectiveTime:
        """Return the seconds of one collective; `message`: of another message than its own."""
        from roofsim.cost.links.collectives import Together, collective_time  # one device needs no links

        message, layout = op.message() if message is None else message, self.layout
        ranks, stride = op.ranks, layout.stride("experts" if op.of_experts and op.group_of == "data" else op.group_of)
        if op.function == "ring":
            ranks, stride = 2.0, self._hop(op.group_of, layout.tensor * layout.context)
        if op.group_of == "pipeline":
            ranks, stride = 2.0, self._hop("pipeline", layout.ranks)
            message = message / layout.tensor if self.split_messages and not layout.sequence else message
        return collective_time(
            _PRICED_AS.get(op.function, op.function),
            message,
            ranks,
            stride,
            self.fabric,
            intra_scale=scales.intra_node_link,
            inter_scale=scales.inter_node_link,
            latency_scale=scales.latency,
            custom=self.own_kernels if op.group_of == "tensor" else None,
            together=Together(rows=op.per_token, groups=op.groups, chosen=op.chosen)
            if op.function == "all_to_all"
            else None,
        )

    def _hop(self, group: str, ranks: Real) -> Real:
        """Return the distance of a group's slowest neighbours: where its ranks fill several nodes, those across a border."""
        stride, nodes = self.layout.stride(group), self.fabric.gpus_per_node
        return where(ranks > nodes, maximum(stride, nodes), stride)
