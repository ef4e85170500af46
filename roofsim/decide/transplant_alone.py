"""Carry a recorded step over to other hardware by what the trace alone says of it: no scenario names its model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.distance import own_kernels
from roofsim.analyze.intervals import interval_parts
from roofsim.analyze.stated import scenario_of
from roofsim.api import resolve_document
from roofsim.decide.changes import KeyChange, with_changes
from roofsim.errors import Place, Problem, SpecError
from roofsim.evaluate import evaluate
from roofsim.records import dataclass
from roofsim.spec.scenario.document import with_override
from roofsim.spec.usual import ANY_MODEL
from roofsim.traces.alone import RecordedWork, prevailing, work_of
from roofsim.traces.idle import exposed
from roofsim.traces.recorded import COLLECTIVE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roofsim.evaluate import Evaluation
    from roofsim.spec.reading.source import Document
    from roofsim.traces.recorded import RecordedStep

_GPUS: Final = ("hardware", "gpus")
_DATA: Final = ("parallel", "data")
_WAY_OUT: Final = "Give the scenario that was run: roofsim transplant TRACE SCENARIO."
#: What of a scenario a trace alone leaves to be said: the engine, whose kernels these are, and the format of the numbers.
_SAID: Final = ("workload.engine", "workload.engine_facts", "workload.precision", "workload.attention")
#: Forms that say nothing of the operators' inputs -> why, and the way out.
_NO_SIZES: Final = {
    "roofsim": ("roofsim wrote it: it holds predictions for a scenario, and no sizes", _WAY_OUT),
    "rocprof": (
        "rocprof's tables name kernels, and say nothing of the sizes of what they work on",
        "Record with torch.profiler, record_shapes=True, or give the scenario: roofsim transplant TRACE SCENARIO.",
    ),
}
_RECORD: Final = {
    "kineto": "Record with torch.profiler.profile(record_shapes=True), or give the scenario: roofsim transplant TRACE SCENARIO.",
    "nsight": "Record under torch.autograd.profiler.emit_nvtx(record_shapes=True), or give the scenario: "
    "roofsim transplant TRACE SCENARIO.",
}


@dataclass(frozen=True, kw_only=True)
class TracePrediction:
    """What the work of a trace is predicted to take on some hardware: of a `Result` what carrying a step over asks for.

    Attributes
    ----------
    scenario
        Hardware, engine and formats, as resolved; its model stands for none.
    """

    scenario: dict[str, Any]
    step_time: float
    time: dict[str, Any]
    interval_terms: dict[str, tuple[Any, Any]]
    own_kernels: float


def prediction_of(evaluation: Evaluation, communication: float) -> TracePrediction:
    """Return the prediction of a step of which messages show for a share."""
    step = evaluation.step
    return TracePrediction(
        scenario=scenario_of(evaluation.resolved),
        step_time=float(step.step),
        time=dict(step.breakdown),
        interval_terms=interval_parts(evaluation, communication=communication),
        own_kernels=float(own_kernels(evaluation).share),
    )


def recorded_work(step: RecordedStep, document: Document) -> RecordedWork:
    """Return what a trace says that the step runs.

    Raises
    ------
    SpecError
        Where it says nothing of the sizes, or of the types, of what operators work on.
    """
    place = Place(step.source)
    if step.form in _NO_SIZES:
        why, hint = _NO_SIZES[step.form]
        raise SpecError(Problem(f"cannot be carried over alone: {why}", place, hint=hint))
    calls = [call for kernel in step.kernels for _, call in kernel.calls[:1]]
    if not calls:
        message = "cannot be carried over alone: it says nothing of the sizes of the operators' inputs"
        raise SpecError(Problem(message, place, hint=_RECORD.get(step.form, _WAY_OUT)))
    precision = _at(document, "workload", "precision")
    if not any(call.types for call in calls) and not isinstance(precision, str):
        message = "says the sizes of the operators' inputs, but not their types"
        raise SpecError(Problem(message, place, hint="Say the format of the tensors, such as --precision bf16."))
    work = work_of(step, precision if isinstance(precision, str) else None)
    if not work.graph.ops:
        message = "cannot be carried over alone: of none of its kernels the work is told"
        raise SpecError(Problem(message, place, hint=_RECORD.get(step.form, _WAY_OUT)))
    return work


#: What stands in the place of a scenario, for flags to be put in; its model stands for none.
NO_SCENARIO: Final[dict[str, Any]] = {"model": ANY_MODEL}


def document_of_trace(step: RecordedStep, document: Document) -> Document:
    """Return a scenario that says of a trace what no trace says: the engine, and the format where types are not told.

    Parameters
    ----------
    document
        `NO_SCENARIO`, with what flags say beside it.

    Raises
    ------
    SpecError
        For a key that says what only the trace can.
    """
    for section in ("model", "workload", "parallel"):
        given = document.data.get(section)
        for key in given if isinstance(given, dict) else ():
            if f"{section}.{key}" not in _SAID:
                message = f"{section}.{key} is what the trace says, where no scenario does"
                raise SpecError(Problem(message, document.place((section, key)), hint=_WAY_OUT))
    trains = any(kernel.phase in ("backward", "optimizer") for kernel in step.kernels)
    document = with_override(document, "workload.phase", "train" if trains else "forward", "the trace")
    told = prevailing(step)
    if told is not None and _at(document, "workload", "precision") is None:
        document = with_override(document, "workload.precision", told, "the trace")
    return document


def names_card(document: Document) -> bool:
    """Tell whether flags name the hardware."""
    return any(_at(document, "hardware", key) is not None for key in ("gpu", "system"))


def with_ranks(document: Document, step: RecordedStep) -> Document:
    """Return the document of the hardware that a step ran on, with the ranks of its job where nothing else says them."""
    if _at(document, *_GPUS) is None and step.ranks > 1:
        return with_override(document, "hardware.gpus", step.ranks, "the trace")
    return document


def changed(
    work: RecordedWork, here: Document, there: Document, changes: Sequence[KeyChange], stated: Mapping[str, Any]
) -> tuple[Document, dict[int, int]]:
    """Return the other hardware with all changes, and the ranks of groups there, where these differ.

    The copies of a data-parallel job can be more or fewer: its messages keep their bytes. What else a layout changes (which product
    is cut where, what is gathered) no trace says.

    Raises
    ------
    SpecError
        For changes of what the trace alone does not say.
    """
    replicas = None
    for change in changes:
        if change.path == _DATA:
            replicas = change.value
        elif change.path[0] != "hardware":
            what = f"{'.'.join(change.path)} decides which kernels run on what sizes, and the trace has those of the recorded run"
            raise SpecError(Problem(f"cannot be changed: {what}", change.place, hint=_WAY_OUT))
    there = with_changes(there, [change for change in changes if change.path != _DATA], stated)
    before = _number(_at(here, *_GPUS)) or 1
    after = _number(_at(there, *_GPUS)) or before
    if replicas is not None:
        place = next(change.place for change in changes if change.path == _DATA)
        many = _number(replicas)
        if many is None or many < 1:
            raise SpecError(Problem(f"expected a whole number of replicas; got {replicas!r}", place))
        if after not in (before, many):
            raise SpecError(Problem(f"{many} replicas do not fill {after} cards", place, hint=f"Say --to {many}xCARD."))
        after = many
    there = with_override(there, "hardware.gpus", after, "the trace")
    if after == before:
        return there, {}
    _check_replicas(work, before)
    return there, {before: after}


def _check_replicas(work: RecordedWork, ranks: int) -> None:
    """Raise where other ranks change more than how many a message is among."""
    functions = {kernel.message.function for kernel in work.step.kernels if kernel.message is not None}
    why = ""
    if ranks == 1 or not work.groups:
        why = "the trace is of one card, and has none of the messages that several send"
    elif work.groups != {ranks}:
        why = f"its messages are among groups of {', '.join(map(str, sorted(work.groups)))} of {ranks} ranks"
    elif functions - {"all_reduce", "broadcast"}:
        names = ", ".join(sorted(functions - {"all_reduce", "broadcast"}))
        why = (
            f"its ranks exchange more than sums of gradients ({names}): what each keeps follows from how many there are"
        )
    if why:
        message = f"the number of cards cannot be changed: {why}"
        raise SpecError(Problem(message, Place(work.step.source), hint=_WAY_OUT))


def evaluated(document: Document, work: RecordedWork) -> Evaluation:
    """Return the work of a trace, priced on the hardware of a document."""
    return evaluate(resolve_document(document), program=work.program)


def shown(step: RecordedStep) -> float:
    """Return the share of a recorded step that shows messages."""
    return min(exposed(step, COLLECTIVE) / step.seconds, 1.0) if step.seconds else 0.0


def what_is_unknown(work: RecordedWork) -> str:
    """Say which operators' work the trace does not tell, the longest first."""
    busy = work.step.busy
    listed = [f"{name} ({100.0 * seconds / busy:.1f} %)" for name, seconds in list(work.unknown.items())[:5]]
    return f"work that the trace does not tell: {', '.join(listed)}" if listed else ""


def _at(document: Document, *path: str) -> Any:
    at: Any = document.data
    for part in path:
        at = at.get(part) if isinstance(at, dict) else None
    return at


def _number(given: Any) -> int | None:
    try:
        number = float(given)
    except (TypeError, ValueError):
        return None
    return int(number) if number == int(number) else None
