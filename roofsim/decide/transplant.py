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
from roofsim.traces.carry import Carried, carried
from roofsim.traces.mapping import Mapping, mapped
from roofsim.traces.predicted import predicted_of
from roofsim.traces.read import read_trace

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Mapping as Mapping_
    from pathlib import Path

    from roofsim.analyze.result import Result
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.workload import Scenario

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
    """

    source: str
    target: str
    mapping: Mapping
    carried: Carried | None
    before: Result
    after: Result
    interval: tuple[float, float] | None
    notes: tuple[str, ...] = ()

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
    scenario: str | Path | dict[str, Any] | Scenario,
    *,
    source: str | None = None,
    target: str | None = None,
    changes: Mapping_[str, Any] | Iterable[str] = (),
    stage: str | None = None,
    **overrides: Any,
) -> Transplant:
    """Say what a recorded step would be on other hardware, or in another layout.

    Each kernel is mapped to the op of the scenario that it is. What it took against what is predicted for the hardware it ran on
    (its residual) is carried over to the prediction for the other; the step is laid out again with these seconds.

    Parameters
    ----------
    trace
        A file that a profiler wrote; see `roofsim.check`.
    scenario
        What was run.
    source, target
        Hardware as lists of cards name it: ``"a100"``, ``"8xh100"``, ``"a100{memory.bandwidth=2x}"``. Left out:
        the scenario's.
    changes
        What else differs on the target: ``{"parallel.tensor": 2}``, or texts as for ``--set``.
    stage
        Of a training pipeline: the stage that was recorded.
    overrides
        Values of the scenario, as for `roofsim.run`.

    Returns
    -------
    Transplant
        Seconds of the step there with an 80 % interval, and of every op.

    Raises
    ------
    SpecError
        When the request is wrong, or the file is no trace.
    """
    document = load_scenario(scenario, overrides)
    return transplant_document(document, trace, source=source, target=target, changes=changes, stage=stage)


def transplant_document(
    document: Document,
    trace: str | Path,
    *,
    source: str | None = None,
    target: str | None = None,
    changes: Mapping_[str, Any] | Iterable[str] = (),
    stage: str | None = None,
    origins: tuple[str, str, str] = ("source", "target", "changes"),
) -> Transplant:
    """Answer a request that was read already; see `transplant`.

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
    here = _on(document, source, origins[0])
    first = evaluate(resolve_document(here))
    before = answer(first)
    there = with_changes(_on(here, target, origins[1]), made, before.scenario)
    second = evaluate(resolve_document(there))
    after = answer(second)
    mapping = mapped(step, predicted_of(step, first, stage))
    notes = list(contradictions(step, first))
    moved = None
    if mapping.decides:
        moved = carried(mapping, predicted_of(step, second, stage), second)
    else:
        notes.insert(0, no_verdict(mapping))
    return Transplant(
        source=_label(before),
        target=", ".join((_label(after), *(change.text for change in made))),
        mapping=mapping,
        carried=moved,
        before=before,
        after=after,
        interval=None if moved is None else _interval(before, after, moved.step),
        notes=tuple(notes),
    )


def _on(document: Document, text: str | None, origin: str) -> Document:
    if text is None:
        return document
    cards: list[Card] = read_cards(text, origin)
    if len(cards) != 1:
        raise SpecError(Problem(f"expected one card; got {text!r}", Place(origin), hint="For example a100 or 8xh100."))
    return cards[0].on(document)


def _label(result: Result) -> str:
    hardware = result.scenario["hardware"]
    return f"{hardware['gpus']} x {hardware['gpu']}"


def _interval(before: Result, after: Result, step: float) -> tuple[float, float] | None:
    """Return the ends of a carried step: it errs as the ratio of the two predictions does."""
    ratio = float(before.step_time) / float(after.step_time)
    ends = speedup_interval(before, after, ratio)
    return None if ends is None else (step * ratio / ends[1], step * ratio / ends[0])
