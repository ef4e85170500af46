"""Tell what a scenario states from what is taken where it says nothing; only the latter is assumed.

Notes have two forms: ``key: value`` of a key that nobody states, and ``what given: chosen`` of a name that stands for another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.errors import Problem, SpecError
from roofsim.spec import catalog
from roofsim.spec.scenario.adapter import Adapter
from roofsim.spec.scenario.guided import MASK_TIMES, guided_of
from roofsim.spec.scenario.workload import OPTIMIZER_NOTES
from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.spec.model.base import ModelSpec
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.workload import Scenario, Workload

#: Parts of adapters that change what they cost, with a default.
_OF_ADAPTERS: Final = ("rank", "targets")


def chosen(what: str, given: str, name: str) -> list[str]:
    """Return the entry that a name was taken for, unless it is the entry's own name.

    >>> chosen("gpu", "a100", "a100-sxm4-80gb"), chosen("gpu", "A100 SXM4 80GB", "a100-sxm4-80gb")
    (['gpu a100: a100-sxm4-80gb'], [])
    """
    return [] if catalog.normal(given) == name else [f"{what} {given}: {name}"]


def unstated(scenario: Scenario, document: Document) -> list[str]:
    """Return the defaults that decide what is run, and that the scenario leaves to them."""
    workload, parallel = scenario.workload, scenario.parallel
    trains = workload.phase == "train"
    used = {
        ("workload", "phase"): (workload.phase, True),
        ("workload", "engine"): (workload.engine, True),
        ("workload", "optimizer"): (workload.optimizer, trains),
        ("parallel", "schedule"): (parallel.schedule, trains and parallel.pipeline > 1),
        ("parallel", "expert_imbalance"): ("1, every expert gets as many tokens", parallel.expert > 1),
    }
    notes = [
        f"{path[-1]}: {value}" for path, (value, matters) in used.items() if matters and not document.states(*path)
    ]
    if trains and workload.optimizer in OPTIMIZER_NOTES:
        notes.append(f"optimizer {workload.optimizer}: {OPTIMIZER_NOTES[workload.optimizer]}")
    steps = parallel.local_steps
    if steps is not None:
        notes.append(
            f"local_steps: the exchange of workers is spread over {steps.every} steps: the step is the mean, and one of them takes "
            "all of it"
        )
    guided = guided_of(workload.guided_decoding)
    if guided is not None and guided.mask_time is None:
        notes.append(
            f"mask_time: {humanize(MASK_TIMES[guided.backend], 's', 3)} of the host for each token, the mean of {guided.backend} "
            "over JSON schemas (MaskBench); most take less, and the slowest mask of a batch holds it up"
        )
    return notes + _of_adapters(workload, document)


def as_model_says(scenario: Scenario, model: ModelSpec | None, document: Document) -> Scenario:
    """Take what a model decides where nobody says otherwise: its phase, its stages and its engine; raise `SpecError` as it must."""
    scenario = _with_planned_stages(_of_forward_only(scenario, model, document), model)
    return _with_own_engine(scenario, model, document)


def _with_planned_stages(scenario: Scenario, model: ModelSpec | None) -> Scenario:
    """Take the layers of each stage from the plan of a model's modules, where the scenario states none."""
    planned = None if model is None else model.stage_layers()
    parallel = scenario.parallel
    if planned is None or parallel.stage_layers is not None or parallel.pipeline == 1:
        return scenario
    return scenario.model_copy(update={"parallel": parallel.model_copy(update={"stage_layers": planned})})


def _with_own_engine(scenario: Scenario, model: ModelSpec | None, document: Document) -> Scenario:
    """Take the engine that a program was written for, where the scenario states none."""
    own = None if model is None else model.usual_engine()
    if own is None or document.states("workload", "engine"):
        return scenario
    return scenario.model_copy(update={"workload": scenario.workload.model_copy(update={"engine": own})})


def _of_forward_only(scenario: Scenario, model: ModelSpec | None, document: Document) -> Scenario:
    """Take the forward pass of a model that has no other, where nobody says what to run; raise `SpecError` where one trains it."""
    wrong = None if model is None else model.no_training()
    if wrong is None or scenario.workload.phase != "train":
        return scenario
    if document.states("workload", "phase"):
        path = ("workload", "phase")
        raise SpecError(Problem(wrong.message, document.place(path), ".".join(path), wrong.hint))
    workload = scenario.workload.model_copy(update={"phase": "forward"})
    return scenario.model_copy(update={"workload": workload})


def _of_adapters(workload: Workload, document: Document) -> list[str]:
    adapter = workload.adapter
    if adapter is None:
        return []
    whole: Adapter = Adapter(kind=adapter) if isinstance(adapter, str) else adapter
    return [
        f"adapter.{name}: {getattr(whole, name)}"
        for name in _OF_ADAPTERS
        if not document.states("workload", "adapter", name)
    ]
