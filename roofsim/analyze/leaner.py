"""Say what an engine's users ask for to keep less on the device, and what a scenario does not ask for yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.errors import Place
from roofsim.spec.engine.choice import read_choice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.spec.resolve import Resolved

_HERE = Place("scenario")


def leaner_choices(resolved: Resolved) -> Iterator[tuple[str, str, Any]]:
    """Yield name, key and value of each choice by which the same training keeps less; `Engine.leaner` lists them.

    Variants of the engine one by one, then types of roles beside narrow products, each with those before it.
    """
    if resolved.workload.phase != "train" or resolved.workload.engine is None:
        return
    given = read_choice(resolved.workload.engine, _HERE)
    for variant in resolved.engine.leaner.variants:
        if variant not in given.variants:
            whole = given.model_copy(update={"variant": "+".join((*given.variants, variant))})
            yield variant, "workload.engine", whole.label(given.name)
    asked = _asked(resolved)
    names: list[str] = []
    for role, narrow in resolved.engine.leaner.roles.items():
        if asked and narrow in resolved.gpu.peak and not _narrow(resolved, role):
            asked, names = asked | {role: narrow}, [*names, f"{role} in {narrow}"]
            yield " and ".join(names), "workload.precision", asked


def experts_may_move(resolved: Resolved) -> bool:
    """Tell whether the host could keep the routed experts and multiply with them, as this engine does, and keeps no weights yet."""
    offload = resolved.parallel.offload
    return (
        resolved.workload.phase != "train"
        and resolved.engine.offload.layers == "computed"
        and resolved.model.traits().experts > 0
        and offload.experts == "none"
        and offload.parameters_at == "none"
    )


def _asked(resolved: Resolved) -> dict[str, Any]:
    """Return the roles that a scenario with narrow products states; none of another scenario."""
    if resolved.precision.operands is None:
        return {}
    given = resolved.workload.precision or resolved.precision.name
    return {"compute": given} if isinstance(given, str) else given.model_dump(exclude_none=True)


def _narrow(resolved: Resolved, role: str) -> bool:
    return (resolved.precision.attention if role == "attention" else resolved.precision.weights) is not None
