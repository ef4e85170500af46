"""List the ops of a scenario in the order in which they run, each as often as it does, with the seconds that roofsim predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.shares import made_of
from roofsim.analyze.timeline import timeline
from roofsim.analyze.timeline.passes import in_program_order
from roofsim.cost.kernels.roofline import BOUNDS
from roofsim.cost.links.communication import FREE
from roofsim.cost.scales import Scales
from roofsim.errors import NoDataError, Problem, SpecError
from roofsim.evaluate import messages_of, schedule_of
from roofsim.graph.base import HEAVY_KINDS, Kind, Phase
from roofsim.graph.ops import Collective, HostCompute, HostTransfer, HostUpdate
from roofsim.records import dataclass
from roofsim.spec.scenario.layout import layout_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.analyze.shares import Part
    from roofsim.cost.links.communication import Messages
    from roofsim.cost.pricing import OpCost
    from roofsim.evaluate import Evaluation
    from roofsim.traces.recorded import RecordedStep

#: Kind of a piece of a timeline -> the class that tables show, where it is no op.
_GROUPS: Final = {"communication": str(Kind.COLLECTIVE), "copy": str(Kind.HOST_TRANSFER)}
#: Ops of a step that are written out at most.
MOST_OPS: Final = 200_000


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictedOp:
    """One run of an op.

    Attributes
    ----------
    key
        What names this run in the same scenario on another card: op, layer's number, micro batch; of pieces of roofsim's own
        timeline stream, name, and which of this name it is.
    group, kind
        The class that tables show, and the class of its kernels: products of attention scores are attention, by matrix products.
    phase
        ``forward``, ``backward`` (with what is computed again in it) or ``optimizer``.
    layer
        The module that it belongs to, with its number where it repeats.
    seconds
        Predicted, at the clock that the card's power allows.
    roofline
        The least seconds at the datasheet's rates; 0 of messages and copies, which have no roofline.
    flops, moved
        FLOPs, and bytes that it reads and writes; of a collective the bytes of its message.
    function
        Of a collective: which.
    group_of, ranks, stride
        Of a collective: its group, how many ranks that has, and the distance between neighbours in it.
    """

    key: tuple[str | int, ...]
    name: str
    group: str
    kind: str
    phase: str
    layer: str
    seconds: float
    roofline: float
    bound: str
    flops: float
    moved: float
    launches: float
    function: str = ""
    group_of: str = ""
    ranks: int = 1
    stride: int = 1


def predicted_of(step: RecordedStep, evaluation: Evaluation, stage: str | None = None) -> tuple[PredictedOp, ...]:
    """Return what the kernels of a step are held beside: ops, or, of roofsim's own trace, the pieces of its timeline.

    Raises
    ------
    SpecError
        As `predicted_ops`.
    """
    if step.form != "roofsim":
        return predicted_ops(evaluation, stage)
    lane = step.kernels[0].facts.get("lane")
    return predicted_pieces(evaluation, lane if isinstance(lane, int) else 0)


def predicted_ops(evaluation: Evaluation, stage: str | None = None) -> tuple[PredictedOp, ...]:
    """Return what one rank runs in a step, in order; of a training pipeline a rank of one stage.

    Raises
    ------
    SpecError
        For sizes that are arrays, a stage that does not exist, or a step of too many ops.
    """
    made = made_of(evaluation, stage)
    several = evaluation.resolved.gpus > 1
    unrolling = _Unrolling(evaluation, messages_of(evaluation.resolved) if several else None)
    ops: list[PredictedOp] = []
    for part in made.parts:
        body = [cost for cost in part.costs if cost.op.phase is not Phase.OPTIMIZER]
        tail = [cost for cost in part.costs if cost.op.phase is Phase.OPTIMIZER]
        passes = max(round(part.runs * part.micro_batches), 1)
        if len(ops) + passes * sum(float(part.over(cost.op.repeats)) for cost in body) > MOST_OPS:
            hint = "Give the scenario of a shorter step: fewer micro batches, or one token of a decode."
            raise SpecError(Problem(f"the step has more than {MOST_OPS} ops, too many to compare", hint=hint))
        for number in range(passes):
            ops += unrolling.ops(part, body, number, last=number == passes - 1)
        ops += unrolling.ops(part, tail, passes - 1, last=True)
    return tuple(ops)


def predicted_pieces(evaluation: Evaluation, lane: int) -> tuple[PredictedOp, ...]:
    """Return the pieces of work and the waits of roofsim's own timeline, of one of its lanes.

    Raises
    ------
    SpecError
        For sizes that are arrays.
    """
    rates = _Unrolling(evaluation, None)
    turns: dict[tuple[str, str], int] = {}
    pieces = []
    for span in timeline(evaluation).spans:
        if span.lane != lane:
            continue
        turn = span.stream, span.name
        turns[turn] = turns.get(turn, -1) + 1
        facts = span.facts
        flops, moved = (float(facts.get(name) or 0.0) for name in ("flops", "bytes"))
        group = str(facts.get("class", _GROUPS.get(span.kind, span.kind)))
        layer, repeat = str(facts.get("layer", span.kind)), facts.get("repeat")
        rate = rates.peak if group in HEAVY_KINDS else rates.vector
        pieces.append(
            PredictedOp(
                key=(*turn, turns[turn]),
                name=str(facts.get("op", span.name)),
                group=group,
                kind=group,
                phase=span.kind,
                layer=layer if repeat is None else f"{layer}[{repeat}]",
                seconds=span.seconds,
                roofline=max(flops / rate, moved / rates.bandwidth) if flops or moved else 0.0,
                bound=str(facts.get("bound", "")),
                flops=flops,
                moved=moved,
                launches=1.0,
                function=span.stream if span.kind == "communication" else "",
            )
        )
    return tuple(pieces)


class _Unrolling:
    """Writes the ops of parts out, each run with its seconds."""

    def __init__(self, evaluation: Evaluation, messages: Messages | None) -> None:
        self.messages, self.layout = messages, layout_of(evaluation.resolved.parallel)
        self.sharded = schedule_of(evaluation.resolved).sharded
        device = evaluation.device
        math = evaluation.resolved.precision.math
        self.bandwidth = float(device.bandwidth)
        self.peak = _peak(evaluation, math)
        self.vector = self.peak if device.vector_rate is None else float(device.vector_rate)
        self.rates: dict[str, float] = {}
        self.evaluation = evaluation

    def ops(self, part: Part, costs: list[OpCost], number: int, *, last: bool) -> Iterator[PredictedOp]:
        """Yield the ops of one pass; what data-parallel ranks exchange once a step, in the last."""
        for repeat, cost in in_program_order(costs):
            op = cost.op
            if op.kind is Kind.VIEW or isinstance(op, HostCompute | HostUpdate):
                continue
            if isinstance(op, Collective) and (op.function in FREE or (self._once(op) and not last)):
                continue
            yield self._op(part, cost, repeat, number)

    def _once(self, op: Collective) -> bool:
        """Tell whether a message goes out once a step, however many micro batches there are: of what ranks do not share."""
        return op.group_of in ("data", "replica", "workers") and not (self.sharded and op.phase is not Phase.OPTIMIZER)

    def _op(self, part: Part, cost: OpCost, repeat: int | None, number: int) -> PredictedOp:
        op = cost.op
        seconds, moved, roofline = part.over(cost.lasting(part.stretch) * op.share), 0.0, 0.0
        sent: dict[str, Any] = {}
        flops = part.over(op.executed_flops() * op.share)
        if isinstance(op, Collective):
            moved = part.over(op.message() * op.share)
            experts = op.of_experts and op.group_of == "data"
            stride = self.layout.stride("experts" if experts else op.group_of)
            sent = {"function": op.function, "group_of": op.group_of, "ranks": int(op.ranks), "stride": int(stride)}
            if self.messages is not None:
                seconds = part.over(self.messages.time_of(op, Scales()).seconds * op.share)
        else:
            moved = part.over((op.bytes_read() + op.bytes_written()) * op.share)
            if not isinstance(op, HostTransfer):
                rate = self._rate(None if op.math is None else op.math.name) if op.group in HEAVY_KINDS else self.vector
                roofline = max(flops / rate, moved / self.bandwidth)
        return PredictedOp(
            key=(op.name, -1 if repeat is None else repeat, number),
            name=op.name,
            group=str(op.group),
            kind=str(op.kind if op.kind is Kind.MATMUL else op.group),
            phase=str(Phase.BACKWARD if op.phase is Phase.RECOMPUTE else op.phase),
            layer=str(op.layer) if repeat is None else f"{op.layer}[{repeat}]",
            seconds=seconds,
            roofline=roofline,
            bound=_bound(part, cost),
            flops=flops,
            moved=moved,
            launches=part.over(cost.launches),
            **sent,
        )

    def _rate(self, math: str | None) -> float:
        if math is None:
            return self.peak
        if math not in self.rates:
            self.rates[math] = _peak(self.evaluation, math)
        return self.rates[math]


def _peak(evaluation: Evaluation, math: str) -> float:
    try:
        return float(evaluation.device.rate(math)[0])
    except NoDataError:  # arithmetic that the card does in another format
        return float(evaluation.device.rate(evaluation.resolved.precision.math)[0])


def _bound(part: Part, cost: OpCost) -> str:
    shares = {name: part.over(getattr(cost, name)) for name in BOUNDS}
    return max(shares, key=lambda name: shares[name]) if any(shares.values()) else ""
