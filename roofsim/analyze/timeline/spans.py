"""Hold a timeline: pieces of work on the streams of groups of ranks, and sums over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.printed import Drawn
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from roofsim.analyze.result import Memory

#: Streams, in the order in which they are drawn; groups of collectives stand between compute and copies.
COMPUTE: Final = "compute"
TO_HOST: Final = "device to host"
FROM_HOST: Final = "host to device"
HOST: Final = "host"
#: What a rank waits for while nothing of its own runs.
WAITS: Final = "waits"
STREAMS: Final = (
    COMPUTE, "tensor", "context", "context_ring", "expert", "expert_tensor", "statistics", "tables", "pipeline", "data", "replica",
    "workers", TO_HOST, FROM_HOST, HOST, WAITS,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of work.

    Attributes
    ----------
    lane
        Number of the group of ranks.
    stream
        One of `STREAMS`.
    kind
        ``forward``, ``backward``, ``weight gradients``, ``recompute``, ``optimizer``, ``communication``, ``copy``, ``host`` or
        ``wait``.
    start, seconds
        When it begins after the step has, and how long it lasts.
    facts
        What else is known of it: micro batch, chunk, class of op ...
    """

    lane: int
    stream: str
    name: str
    kind: str
    start: float
    seconds: float
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Lane:
    """Ranks that do the same at the same time.

    Attributes
    ----------
    name
        ``stage 3``, or what a rank of a layout without stages is called.
    ranks
        How many there are.
    busy
        Seconds in which one of them works or communicates, of the step.
    waits
        Seconds in which it waits for other stages, slower ranks or samples.
    micro_batch
        Seconds of one micro batch.
    """

    name: str
    ranks: float
    busy: float
    waits: float
    micro_batch: float


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What goes on beside the work of a timeline, each as amounts from an instant on; empty where it was not followed.

    Attributes
    ----------
    memory
        Bytes alive by category, of the rank that is written out.
    power
        Watts that kernels draw by their own energy.
    links
        Group of a collective, or direction of a copy -> bytes per second.
    issue
        Name, start and seconds of what the host issues.
    in_flight
        Of pipelines: micro batches that each lane holds.
    passes
        Of pipelines: the ops inside passes, those of a pass together.
    stage_power
        Of pipelines: watts of each lane, the mean over each pass.
    """

    memory: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    power: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    links: dict[str, list[tuple[float, dict[str, float]]]] = field(default_factory=dict)
    issue: list[tuple[str, float, float]] = field(default_factory=list)
    in_flight: list[list[tuple[float, dict[str, float]]]] = field(default_factory=list)
    passes: list[list[Span]] = field(default_factory=list)
    stage_power: list[list[tuple[float, dict[str, float]]]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, repr=False)
class Timeline(Drawn):
    """A step, or one pass of inference.

    Attributes
    ----------
    step
        Seconds of all of it.
    collectives
        A row for each phase and group of each kind of stage: seconds of a step, and what of them shows.
    shown_micro_batches, micro_batches
        How many micro batches are written out, of how many.
    memory
        What a rank holds, for whether it fits at all.
    """

    title: str
    step: float
    lanes: list[Lane]
    spans: list[Span]
    collectives: list[dict[str, Any]]
    micro_batches: int
    shown_micro_batches: int
    schedule: str | None = None
    notes: list[str] = field(default_factory=list)
    memory: Memory | None = None
    beside: Beside = field(default_factory=Beside)
    """What goes on beside the spans, for traces."""

    @property
    def is_whole(self) -> bool:
        """Whether every micro batch is written out."""
        return self.shown_micro_batches == self.micro_batches

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one flat row per piece of work: whose, on which stream, when."""
        return [
            {
                "lane": self.lanes[span.lane].name,
                "stream": span.stream,
                "name": span.name,
                "kind": span.kind,
                "start": span.start,
                "time": span.seconds,
                **span.facts,
            }
            for span in self.spans
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the sums as plain data; spans are for traces and pictures."""
        slowest = max((lane.micro_batch for lane in self.lanes), default=0.0)
        return {
            "schema": "roofsim/timeline/1",
            "title": self.title,
            "step_time": self.step,
            "schedule": self.schedule,
            "micro_batches": self.micro_batches,
            "lanes": [
                {
                    "name": lane.name,
                    "ranks": lane.ranks,
                    "busy": lane.busy,
                    "waits": lane.waits,
                    "waits_share": lane.waits / self.step if self.step else 0.0,
                    "micro_batch": lane.micro_batch,
                    "of_slowest": lane.micro_batch / slowest if slowest else 1.0,
                }
                for lane in self.lanes
            ],
            "collectives": self.collectives,
            "notes": self.notes,
        }
