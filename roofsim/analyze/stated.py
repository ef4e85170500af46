"""The scenario of an answer as plain data: what was stated and what was assumed, so that it runs again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.result import plain
from roofsim.spec import catalog

if TYPE_CHECKING:
    from roofsim.spec.resolve import Resolved


def scenario_of(resolved: Resolved) -> dict[str, Any]:
    """Return the scenario as resolved, defaults included, as plain data."""
    precision = resolved.precision
    roles = (
        "compute", "math", "parameters", "gradients", "master_parameters", "optimizer_state", "key_value_cache",
        "weights", "operands", "attention", "autocast",
    )  # fmt: skip
    workload = resolved.workload.model_dump(exclude={"precision", "engine_facts"})
    workload["precision"] = {"name": precision.name} | {role: getattr(precision, role) for role in roles}
    workload["engine"] = resolved.workload.engine
    workload["attention"] = resolved.engine.attention.implementation
    workload["memory_format"] = resolved.engine.convolution.memory_format
    facts = resolved.engine.facts()
    hidden = {"schema_version", "aliases", "published_parameters", "published_parameters_source", "source"}
    result: dict[str, Any] = plain(
        {
            "units": "SI",
            "model": resolved.model.completed().model_dump(exclude=hidden),
            "workload": workload | {"engine_facts": facts},
            "parallel": resolved.parallel.model_dump(),
            "hardware": {
                **_stated_hardware(resolved),
                "gpus": resolved.gpus,
                "override": resolved.override,
                **_of_runs(resolved),
            },
        }
    )
    return result


#: Keys of the hardware section that a result repeats where they are stated.
_LIMITS: Final = ("calibration", "power_limit", "clock_limit")


def _stated_hardware(resolved: Resolved) -> dict[str, Any]:
    """Return card, node and overlay so that they are found again: by name, or as the scenario describes them.

    A host that stands for several cards which nobody sells in one is left out: it follows from their number.
    """
    choice, system = resolved.choice, resolved.system.name
    described = system if catalog.has("system", system) else choice.system
    return {
        "gpu": resolved.gpu.name if isinstance(choice.gpu, str) else choice.gpu,
        "system": choice.system if isinstance(choice.system, dict) else described,
        **{key: getattr(choice, key) for key in _LIMITS if getattr(choice, key) is not None},
    }


def _of_runs(resolved: Resolved) -> dict[str, float]:
    """Return what the scenario says of failures and stragglers."""
    stated = resolved.reliability
    failures = {} if stated.mtbf is None else {"mtbf": stated.mtbf, "restart": stated.restart}
    return failures | ({"jitter": stated.jitter} if stated.jitter else {})
