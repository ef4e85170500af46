"""Say what PyTorch's allocator would reserve: its simulation over a scenario, and a measured snapshot beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.analyze.ledger import at_last_context
from roofsim.memory.allocator import AllocatorResult, AllocatorSettings, simulate
from roofsim.memory.events import inference, training
from roofsim.memory.numbering import countable
from roofsim.numeric import is_scalar, real
from roofsim.records import asdict, dataclass

if TYPE_CHECKING:
    from roofsim.analyze.result import Memory
    from roofsim.evaluate import Evaluation
    from roofsim.importers.snapshot import Snapshot, Trace
    from roofsim.memory.allocator import Event

#: What a snapshot cannot tell, whatever it holds.
UNMATCHED = (
    "a snapshot covers only what PyTorch's allocator manages, not the CUDA context, NCCL buffers or memory of other libraries",
    "a snapshot does not say which block is a parameter, a gradient or an activation, so totals are compared, not components",
)


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """The simulation over a scenario: with separate segments, with expandable ones, and within the card's memory.

    `within` is that of the engine's own allocator with what the context leaves of the card.
    """

    kind: str
    native: AllocatorResult
    expandable: AllocatorResult
    within: AllocatorResult

    @property
    def own(self) -> AllocatorResult:
        """The one of the engine's own allocator, on a card without end."""
        return self.expandable if self.kind == "expandable" else self.native

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        data: dict[str, Any] = {"kind": self.kind}
        for name in ("native", "expandable"):
            result: AllocatorResult = getattr(self, name)
            data[name] = {
                "allocated_peak": result.allocated_peak,
                "reserved": result.reserved_peak,
                "fragmentation": result.fragmentation,
                "segments": result.segments,
            }
        data["within_capacity"] = {
            "out_of_memory": self.within.out_of_memory is not None,
            "retries": self.within.retries,
            "reserved": self.within.reserved_peak,
        }
        return data


def allocation_of(evaluation: Evaluation) -> Allocation | None:
    """Simulate PyTorch's allocator over a scenario.

    None for arrays of sizes, an engine without such an allocator, and pipelines: how the micro batches of a stage follow
    one another is not written out.
    """
    kind = evaluation.resolved.engine.memory.allocator
    events = None if kind == "planned" or evaluation.program.pipelined else events_of(evaluation)
    if events is None:
        return None
    room = max(float(real(evaluation.device.capacity)) - float(real(evaluation.resolved.architecture.context)), 0.0)
    return Allocation(
        kind=kind,
        native=simulate(events),
        expandable=simulate(events, AllocatorSettings(expandable=True)),
        within=simulate(events, AllocatorSettings(expandable=kind == "expandable", capacity=room)),
    )


def events_of(evaluation: Evaluation) -> list[Event] | None:
    """Return what a scenario allocates and frees, in order; None where its sizes are arrays."""
    program = evaluation.program
    graphs = [stage.graph for stage in program.stages]
    peaks = [
        at_last_context(profile).peak if stage.averaged else profile.peak
        for stage, profile in zip(program.stages, evaluation.profiles, strict=True)
    ]
    if not is_scalar(*peaks, evaluation.device.capacity) or not all(map(countable, graphs)):
        return None
    if evaluation.resolved.workload.phase == "train":
        return training(graphs[0], float(real(program.num_micro_batches)))
    return inference(graphs, networks=program.networks)


def replay(snapshot: Snapshot) -> AllocatorResult | None:
    """Run a snapshot's recorded history through the simulation; None without one."""
    if snapshot.trace is None:
        return None
    return simulate(snapshot.trace.sequence, AllocatorSettings(expandable=snapshot.expandable))


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A snapshot, what was predicted beside what it says (name, predicted, measured, difference), and what to know."""

    snapshot: Snapshot
    comparison: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, without the record of events."""
        names = ("source", "device", "segments", "reserved", "allocated", "active", "fragmentation", "expandable")
        data: dict[str, Any] = {name: getattr(self.snapshot, name) for name in names}
        data["pools"] = [asdict(pool) for pool in self.snapshot.pools]
        data["largest"] = [asdict(block) for block in self.snapshot.largest]
        return data | {"comparison": list(self.comparison), "notes": list(self.notes)}


def measured_of(snapshot: Snapshot, ledger: Memory | None = None, allocation: Allocation | None = None) -> Measured:
    """Put what was measured beside what was predicted, where there is a prediction."""
    rows = [] if snapshot.trace is None else _recorded(snapshot, snapshot.trace, ledger, allocation)
    rows += [
        _row("allocated in the snapshot", None, snapshot.allocated),
        _row("reserved in the snapshot", _reserved(ledger, allocation), snapshot.reserved),
        _row("of it unused", None, snapshot.fragmentation),
    ]
    return Measured(snapshot=snapshot, comparison=tuple(rows), notes=tuple(_notes(snapshot, ledger)))


def _recorded(
    snapshot: Snapshot, trace: Trace, ledger: Memory | None, allocation: Allocation | None
) -> list[dict[str, Any]]:
    replayed = replay(snapshot)
    return [
        _row("allocated peak", None if ledger is None else float(ledger.allocated_peak), trace.allocated_peak),
        _row("lowest allocated", _standing(ledger), trace.allocated_low),
        _row("reserved peak", _reserved(ledger, allocation), trace.reserved_peak),
        _row(
            "reserved, simulated from the record",
            None if replayed is None else replayed.reserved_peak,
            trace.reserved_peak,
        ),
    ]


def _row(name: str, predicted: float | None, measured: float) -> dict[str, Any]:
    difference = None if predicted is None or not measured else predicted / measured - 1.0
    return {"name": name, "predicted": predicted, "measured": measured, "difference": difference}


def _reserved(ledger: Memory | None, allocation: Allocation | None) -> float | None:
    if allocation is not None:
        return allocation.own.reserved_peak
    return None if ledger is None else float(ledger.reserved)


def _standing(ledger: Memory | None) -> float | None:
    """Return what stands between two steps: parameters, the optimizer's state, the cache."""
    if ledger is None:
        return None
    return sum(float(ledger.components[name]) for name in ("parameters", "optimizer_state", "key_value_cache"))


def _notes(snapshot: Snapshot, ledger: Memory | None) -> list[str]:
    notes = [] if ledger is None else list(UNMATCHED)
    if snapshot.trace is None:
        notes.append(
            "the snapshot has no event record (torch.cuda.memory._record_memory_history): allocated and reserved are those "
            "of the moment it was taken, not peaks"
        )
    else:
        notes.append(
            "peaks are those within the record, which may have started after the highest one or lost its beginning (max_entries)"
        )
        if snapshot.trace.out_of_memory:
            notes.append(f"{snapshot.trace.out_of_memory} allocation(s) in the record failed with out of memory")
    if snapshot.devices > 1:
        notes.append(
            f"the snapshot holds {snapshot.devices} devices; device {snapshot.device}, which reserves the most, is shown"
        )
    return notes
