"""Name the sets of measurements that are scored out of fold, and predict their rows with constants that never saw a fold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.analyze.distance import traits_of, traits_of_memory, traits_of_server
from roofsim.analyze.ledger import memory_of
from roofsim.api import resolve_document
from roofsim.calibrate.cases import BYTES, SERVED, STEP_TIME
from roofsim.calibrate.predict import prediction_of_server
from roofsim.errors import NoDataError, SpecError
from roofsim.evaluate import evaluate
from roofsim.records import replace
from roofsim.serve.any_model import serve_any
from roofsim.serve.one_pass.served import ServedPasses
from roofsim.spec.scenario.document import load_scenario
from roofsim_evidence.folds.kinds import UNFITTED
from roofsim_evidence.inference.cases import load_inference_cases
from roofsim_evidence.inference.external_page import external_cases
from roofsim_evidence.inference.fit import with_facts
from roofsim_evidence.memory.cases import load_memory_cases
from roofsim_evidence.mlperf_inference.cases import served_cases
from roofsim_evidence.mlperf_training.cases import training_cases
from roofsim_evidence.multi_gpu.cases import measured_cases
from roofsim_evidence.multi_gpu.energy import with_energy
from roofsim_evidence.multi_gpu.notes import LATER
from roofsim_evidence.steps.cases import load_cases

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim.analyze.distance import RunTraits
    from roofsim.calibrate.cases import Case
    from roofsim.serve.served import Served
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved
    from roofsim_evidence.left_out.refits import Refit


def _inference() -> list[Case]:
    return [case for case in load_inference_cases() if case.quantity == STEP_TIME]


def _servers() -> list[Case]:
    return [case for case in load_inference_cases() if case.quantity in SERVED]


def _external() -> list[Case]:
    return [case for case in external_cases() if case.quantity not in BYTES]


#: Set -> its rows. Nothing is fitted to MLPerf, nor to external measurements: their rows are always left out.
SETS: Final[dict[str, Callable[[], Sequence[Case]]]] = {
    "steps": load_cases,
    "multi-gpu": measured_cases,
    "inference": _inference,
    "servers": _servers,
    "memory": load_memory_cases,
    "mlperf-training": training_cases,
    "mlperf-inference": served_cases,
    "external-inference": _external,
}


def in_sight(name: str, case: Case) -> bool:
    """Tell whether the facts of a row's engine were set with rows of its source in sight."""
    return name not in UNFITTED and case.source not in LATER


def priced(case: Case, refit: Refit) -> tuple[float, RunTraits] | None:
    """Return what is predicted for a row with other constants, in the unit of what was measured, and what its interval asks for.

    None if it is not answered.
    """
    facts = refit.facts.get(case.engine)
    scenario = case.scenario if not facts else with_facts(case.scenario, facts)

    def resolved(document: Document) -> Resolved:
        return with_constants(resolve_document(document), refit)

    try:
        document = load_scenario(scenario, {})
        if case.quantity in SERVED:
            served = serve_any(document, resolved)
            return prediction_of_server(case, served).predicted, _traits(served, case.quantity)
        evaluation = evaluate(resolved(document))
    except (SpecError, NoDataError):
        return None
    if case.quantity in BYTES:
        return float(getattr(memory_of(evaluation), case.quantity)), traits_of_memory(evaluation.resolved)
    return float(evaluation.step.step), traits_of(evaluation)


def _traits(served: Served | ServedPasses, quantity: str) -> RunTraits:
    """Return the traits of a server: of one that answers in one pass, those of its largest batch."""
    if isinstance(served, ServedPasses):
        return traits_of(served.plan.full)
    return traits_of_server(served.plan.resolved, quantity)


def predicted(case: Case, refit: Refit) -> float | None:
    """Return what is predicted for a row with other constants; None if it is not answered."""
    answer = priced(case, refit)
    return None if answer is None else answer[0]


def with_constants(resolved: Resolved, refit: Refit) -> Resolved:
    """Return a scenario that is priced with the constants of a fold."""
    constants = resolved.constants if refit.constants is None else refit.constants
    energy = refit.energies.get(resolved.architecture.name)
    changed = replace(resolved, constants=constants)
    return changed if energy is None else with_energy(changed, energy)


def changes(case: Case, refit: Refit) -> bool:
    """Tell whether constants of a fold may change a row's prediction."""
    timed = case.quantity not in BYTES and (refit.constants is not None or bool(refit.energies))
    return timed or bool(refit.facts.get(case.engine))
