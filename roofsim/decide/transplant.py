"""Say what a recorded step would be on other hardware: each kernel as much slower or faster than predicted there as it was here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.printed import Printed, flattened
from roofsim.analyze.ratio import speedup_interval
from roofsim.api import answer, resolve_document
from roofsim.decide.changes import read_changes, with_changes
from roofsim.decide.trace_check import contradictions, no_verdict
from roofsim.errors import Place, Problem, SpecError
from roofsim.evaluate import evaluate
from roofsim.records import dataclass
from roofsim.spec.scenario.document import load_scenario
from roofsim.spec.settle.cards import Card, read_cards
from roofsim.traces.carry import Carried, carried, with_intervals
from roofsim.traces.mapping import Mapping, mapped
from roofsim.traces.predicted import predicted_of
from roofsim.traces.read import read_trace

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Mapping as Mapping_
    from pathlib import Path

    from roofsim.analyze.result import Result
    from roofsim.decide.changes import KeyChange
    from roofsim.decide.transplant_alone import TracePrediction
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.workload import Scenario
    from roofsim.traces.recorded import RecordedStep

SCHEMA: Final = "roofsim/transplant/1"


@dataclass(frozen=True, kw_only=True, repr=False)
class Transplant(Printed):
    """The answer of `roofsim.transplant`.

    Attributes
    ----------
    source, target
        Labels of the hardware that the step was recorded on, and of that it is carried to.
    mapping
        The recorded step, with the op that each kernel is.
    carried
        The step as it would be there; None where too little is mapped.
    before, after
        The predictions.
    interval
        80 % interval of the carried step, in seconds; None where none is known.
    notes
        What to know of it.
    alone
        Whether no scenario says what was run: the ops are those that the trace's own calls tell.
    """

    source: str
    target: str
    mapping: Mapping
    carried: Carried | None
    before: Result | TracePrediction
    after: Result | TracePrediction
    interval: tuple[float, float] | None
    notes: tuple[str, ...] = ()
    alone: bool = False

    @property
    def speedup(self) -> float | None:
        """The recorded step over the carried one."""
        return None if self.carried is None else self.mapping.step.seconds / self.carried.step

    def to_dict(self) -> dict[str, Any]:
        """Return plain data of schema roofsim/transplant/1, in SI units."""
        step, moved = self.mapping.step, self.carried
        return {
            "schema": SCHEMA,
            "source": self.source,
            "target": self.target,
            "trace": step.source,
            "form": step.form,
            "step": step.name,
            "recorded": step.seconds,
            "mapped": self.mapping.share,
            "verdict": moved is not None,
            "scenario": not self.alone,
            "transplanted": None if moved is None else moved.step,
            "interval": None if self.interval is None else list(self.interval),
            "speedup": self.speedup,
            "predicted": {"source": float(self.before.step_time), "target": float(self.after.step_time)},
            "assumed": None if moved is None else moved.assumed,
            "added": None if moved is None else moved.added,
            "dropped": None if moved is None else moved.dropped,
            "classes": [] if moved is None else [row.to_dict() for row in moved.classes],
            "ops": [] if moved is None else [row.to_dict() for row in moved.ops],
            "notes": list(self.notes),
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a flat row for each op."""
        return [] if self.carried is None else [flattened(row.to_dict()) for row in self.carried.ops]


def transplant(
    trace: str | Path,
    scenario: str | Path | dict[str, Any] | Scenario | None = None,
    *,
    source: str | None = None,
    target: str | None = None,
    changes: Mapping_[str, Any] | Iterable[str] = (),
    stage: str | None = None,
    **overrides: Any,
) -> Transplant:
    """Say what a recorded step would be on other hardware, or in another layout.

    Each kernel is mapped to the op of the scenario that it is; without a scenario, to that of the call which launched it, made of
    the sizes and types that the profiler recorded. What it took against what is predicted for the hardware it ran on
    (its residual) is carried over to the prediction for the other; the step is laid out again with these seconds.

    Parameters
    ----------
    trace
        A file that a profiler wrote; see `roofsim.check`.
    scenario
        What was run. Left out: what the trace alone says of it, which needs the shapes of the operators' inputs
        (``record_shapes=True``).
    source, target
        Hardware as lists of cards name it: ``"a100"``, ``"8xh100"``, ``"a100{memory.bandwidth=2x}"``. Left out:
        the scenario's.
    changes
        What else differs on the target: ``{"parallel.tensor": 2}``, or texts as for ``--set``. Without a scenario: numbers of the
        hardware, and the replicas of a data-parallel job (``parallel.data``).
    stage
        Of a training pipeline: the stage that was recorded.
    overrides
        Values of the scenario, as for `roofsim.run`; without one, the engine.

    Returns
    -------
    Transplant
        Seconds of the step there with an 80 % interval, and of every op.

    Raises
    ------
    SpecError
        When the request is wrong, or the file is no trace.
    """
    from roofsim.decide.transplant_alone import NO_SCENARIO

    document = load_scenario(NO_SCENARIO if scenario is None else scenario, overrides)
    return transplant_document(
        document, trace, source=source, target=target, changes=changes, stage=stage, alone=scenario is None
    )


def transplant_document(
    document: Document,
    trace: str | Path,
    *,
    source: str | None = None,
    target: str | None = None,
    changes: Mapping_[str, Any] | Iterable[str] = (),
    stage: str | None = None,
    origins: tuple[str, str, str] = ("source", "target", "changes"),
    alone: bool = False,
) -> Transplant:
    """Answer a request that was read already; see `transplant`. `alone`: the document holds no scenario, but flags.

    Raises
    ------
    SpecError
        When the request is wrong, or the file is no trace.
    """
    made = read_changes(changes, origins[2])
    if target is None and not made:
        raise SpecError(
            Problem("expected the hardware to carry the trace to", Place(origins[1]), hint="For example h100.")
        )
    step = read_trace(trace)
    if alone:
        if stage is not None:
            raise SpecError(Problem("a stage is one of a scenario's pipeline, and none is given", Place("--stage")))
        return _alone(document, step, source, target, made, origins)
    here = _on(document, source, origins[0])
    first = evaluate(resolve_document(here))
    before = answer(first)
    there = with_changes(_on(here, target, origins[1]), made, before.scenario)
    second = evaluate(resolve_document(there))
    mapping = mapped(step, predicted_of(step, first, stage))
    moved = carried(mapping, predicted_of(step, second, stage), second) if mapping.decides else None
    return _answered(mapping, moved, before, answer(second), made, contradictions(step, first))


def _alone(
    document: Document,
    step: RecordedStep,
    source: str | None,
    target: str | None,
    made: tuple[KeyChange, ...],
    origins: tuple[str, str, str],
) -> Transplant:
    """Carry a step over by what the trace itself says of its calls."""
    from roofsim.decide import transplant_alone as own

    if source is None and not own.names_card(document):
        hint = f"Say it: {origins[0]} a100." + (f" The trace calls it {step.card!r}." if step.card else "")
        raise SpecError(Problem("expected the hardware that the trace was recorded on", Place(origins[0]), hint=hint))
    said = own.document_of_trace(step, document)
    work = own.recorded_work(step, said)
    here = own.with_ranks(_on(said, source, origins[0]), step)
    first = own.evaluated(here, work)
    share = own.shown(step)
    before = own.prediction_of(first, share)
    there, ranks = own.changed(work, here, _on(here, target, origins[1]), made, before.scenario)
    second = own.evaluated(there, work)
    mapping = work.mapped(work.predicted(first))
    moved = carried(mapping, work.predicted(second, ranks=ranks), second) if mapping.decides else None
    unknown = own.what_is_unknown(work)
    notes = (*contradictions(step, first), *((unknown,) if unknown else ()))
    return _answered(mapping, moved, before, own.prediction_of(second, share), made, notes, alone=True)


def _answered(
    mapping: Mapping,
    moved: Carried | None,
    before: Result | TracePrediction,
    after: Result | TracePrediction,
    made: tuple[KeyChange, ...],
    notes: Iterable[str],
    *,
    alone: bool = False,
) -> Transplant:
    interval = None if moved is None else _interval(before, after, moved.step)
    return Transplant(
        source=_label(before),
        target=", ".join((_label(after), *(change.text for change in made))),
        mapping=mapping,
        carried=moved if moved is None or interval is None else with_intervals(moved, interval),
        before=before,
        after=after,
        interval=interval,
        notes=tuple(notes) if moved is not None else (no_verdict(mapping, alone=alone), *notes),
        alone=alone,
    )


def _on(document: Document, text: str | None, origin: str) -> Document:
    if text is None:
        return document
    cards: list[Card] = read_cards(text, origin)
    if len(cards) != 1:
        raise SpecError(Problem(f"expected one card; got {text!r}", Place(origin), hint="For example a100 or 8xh100."))
    return cards[0].on(document)


def _label(result: Result | TracePrediction) -> str:
    hardware = result.scenario["hardware"]
    return f"{hardware['gpus']} x {hardware['gpu']}"


def _interval(
    before: Result | TracePrediction, after: Result | TracePrediction, step: float
) -> tuple[float, float] | None:
    """Return the ends of a carried step: it errs as the ratio of the two predictions does."""
    ratio = float(before.step_time) / float(after.step_time)
    ends = speedup_interval(before, after, ratio)
    return None if ends is None else (step * ratio / ends[1], step * ratio / ends[0])
