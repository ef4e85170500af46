"""Put together the answer of `fit`: whether it fits, the largest or the fewest that does, and what would make it fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.host import host_notes, off_device_of
from roofsim.analyze.printed import Printed
from roofsim.errors import Place, Problem, SpecError, did_you_mean
from roofsim.evaluate import unpriced_of
from roofsim.records import dataclass, field
from roofsim.search.fitting.bench import Workbench, takes_share
from roofsim.search.fitting.changes import Remedies, remedies
from roofsim.search.fitting.layouts import Fewest, fewest_gpus
from roofsim.search.fitting.models import LargestModel, family_of, largest_model
from roofsim.search.fitting.sizes import checked_word, largest_size
from roofsim.search.fitting.state import State, state_of
from roofsim.spec import usual
from roofsim.spec.model.sized import Sized, sized
from roofsim.spec.scenario.document import with_override
from roofsim.spec.scenario.offload import TIERS
from roofsim.spec.settle.offload import places

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.search.fitting.bench import Attempt
    from roofsim.search.fitting.search import Certificate
    from roofsim.search.resolving import Shared
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved

SCHEMA: Final = "roofsim/fit/1"
FEWEST: Final = ("gpus",)


@dataclass(frozen=True, kw_only=True, repr=False)
class Fit(Printed):
    """The answer; parts that were not asked for are None.

    Attributes
    ----------
    base
        The scenario as it is.
    size
        Which size `certificate` is of.
    safe
        The largest value of it whose whole 80 % interval of memory fits; None: not even the smallest's does.
    """

    resolved: Resolved
    base: Attempt
    size: str | None = None
    certificate: Certificate | None = None
    safe: int | None = None
    largest_model: LargestModel | None = None
    fewest: Fewest | None = None
    state: State | None = None
    remedies: Remedies | None = None
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, of schema roofsim/fit/1; bytes, seconds, dollars."""
        certificate = None if self.certificate is None else self._largest(self.certificate)
        return {
            "schema": SCHEMA,
            "scenario": {
                "model": self.resolved.model.name,
                "phase": self.resolved.workload.phase,
                "precision": self.resolved.precision.name,
                "engine": self.resolved.engine.name,
                "system": self.resolved.system.name,
                "base": self.base.to_dict(),
            },
            "fits": self.base.fits,
            "verdict": self.base.verdict,
            "fit_probability": self.base.fit_probability,
            "largest": certificate,
            "largest_model": None if self.largest_model is None else self.largest_model.to_dict(),
            "fewest_gpus": None if self.fewest is None else self.fewest.to_dict(),
            "state": None if self.state is None else self.state.to_dict(),
            "changes": None if self.remedies is None else self.remedies.to_dict(),
            "assumed": list(self.assumed),
            "notes": list(self.notes),
        }

    def _largest(self, certificate: Certificate) -> dict[str, Any]:
        return {"what": self.size, **certificate.to_dict(), "safe_value": self.safe}


def fit_document(
    document: Document,
    resolve: Callable[[Document, Shared], Resolved],
    *,
    largest: str | None = None,
    fewest: str | None = None,
    family: str | None = None,
) -> Fit:
    """Answer a request; see `roofsim.fit`."""
    _refuse_mixtures(largest, fewest, family)
    key = "micro_batch_size" if largest is None else checked_word(largest)
    model = document.data.get("model") if isinstance(document.data, dict) else None
    shape = sized(model)
    document, assumed = _with_engine(document, shape)
    bench = Workbench(document, resolve)
    resolved = bench.resolved({})
    base = bench.attempt({})
    given: dict[str, Any] = {"resolved": resolved, "base": base, "assumed": (*resolved.assumed, *assumed)}
    if fewest is not None or (shape is not None and largest is None and not _placed(bench)):
        return _fewest(bench, given, shape)
    if key == "model":
        return Fit(**given, largest_model=largest_model(bench, family or family_of(model)), notes=_notes(bench, key))
    certificate, safe = largest_size(bench, key)
    wanted = largest is None and not base.fits
    return Fit(
        **given,
        size=key,
        certificate=certificate,
        safe=safe,
        state=state_of(bench),
        notes=_notes(bench, key),
        remedies=remedies(bench, base, certificate.value) if wanted else None,
    )


def _refuse_mixtures(largest: str | None, fewest: str | None, family: str | None) -> None:
    if fewest is not None and fewest.strip().lower() not in FEWEST:
        hint = did_you_mean(fewest, FEWEST)
        raise SpecError(Problem(f"cannot find the fewest {fewest[:60]!r}", Place("--fewest"), "", hint))
    if largest is not None and fewest is not None:
        raise SpecError(Problem("--largest and --fewest cannot be combined"))
    if family is not None and (largest is None or checked_word(largest) != "model"):
        raise SpecError(Problem("needs --largest model", Place("--family")))


def _with_engine(document: Document, shape: Sized | None) -> tuple[Document, list[str]]:
    """Train a model that is given by its size as such models are trained, if the scenario does not say how."""
    workload = document.data.get("workload") or {} if isinstance(document.data, dict) else {}
    unstated = isinstance(workload, dict) and not {"engine", "phase"} & set(workload)
    if shape is None or not unstated:
        return document, []
    return with_override(document, "engine", usual.TRAINER, "fit"), [f"engine: {usual.TRAINER}, as none is named"]


def _placed(bench: Workbench) -> bool:
    """Tell whether the scenario says on how many GPUs it runs."""
    degrees = ("tensor", "pipeline", "context", "data")
    return bench.stated("hardware.gpus") or any(bench.stated(f"parallel.{name}") for name in degrees)


def _fewest(bench: Workbench, given: dict[str, Any], shape: Sized | None) -> Fit:
    tokens = None if shape is None else shape.tokens_per_step
    state = state_of(bench)
    fewest = fewest_gpus(bench, state.roles, tokens)
    assumed = list(given.pop("assumed"))
    assumed = [note for note in assumed if not note.startswith(("global_batch_size", "gpus:"))]
    if fewest.layouts and not bench.stated("workload.global_batch_size") and fewest.layouts[0].global_batch_size:
        batch = fewest.layouts[0].global_batch_size
        why = "about the batch that GPT-3 of this size was trained with" if shape else "four micro batches per GPU"
        assumed.append(f"global_batch_size: {batch}, {why}")
    return Fit(**given, fewest=fewest, state=state, assumed=tuple(assumed))


def _notes(bench: Workbench, key: str) -> tuple[str, ...]:
    return (*_server_notes(bench), *_off_device(bench), *_search_notes(bench, key))


def _off_device(bench: Workbench) -> tuple[str, ...]:
    """Say what of the state is counted elsewhere, and whether the places there hold it."""
    resolved = bench.resolved({})
    moved = places(resolved.parallel.offload)
    if not moved:
        return ()
    said = ", ".join(f"{part.replace('_', ' ')} {TIERS[place].words}" for part, place in moved.items())
    unpriced = unpriced_of(resolved)
    return (f"not counted on the device: {said}", *host_notes(unpriced, off_device_of(unpriced)))


def _server_notes(bench: Workbench) -> tuple[str, ...]:
    """Say what a server leaves of the card."""
    resolved = bench.resolved({})
    engine = resolved.engine
    if engine.server is None or not takes_share(resolved):
        return ()
    of = {
        "device": "memory",
        "static": "memory for weights and cache",
        "free": "memory that weights and activations leave",
    }
    return (
        f"{engine.name} takes {engine.memory.preallocated_share:g} of the GPU's {of[engine.server.preallocated_of]}",
    )


def _search_notes(bench: Workbench, key: str) -> tuple[str, ...]:
    lengths = ("sequence_length", "image_size", "prompt_length", "context_length")
    if key == "model" and not any(bench.stated(f"workload.{name}") for name in lengths):
        return ("each model at its own sequence length or image size",)
    if key in ("micro_batch_size", "batch_size") and bench.stated("workload.global_batch_size"):
        return ("the global batch grows with the micro batch, so that the number of micro batches stays the same",)
    return ()
