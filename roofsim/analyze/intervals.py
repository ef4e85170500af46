"""Say how far a step time or a figure of memory may be off: 80 % intervals from residuals of measured runs, out of fold.

An interval is as wide as the run is unlike what was measured: `roofsim.analyze.distance` counts in what, and
hardware/constants/intervals.yaml says how much each costs at the lower and at the upper end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.distance import (
    memory_parts,
    own_kernels,
    parts_of,
    spread,
    time_amounts,
    traits_of,
    traits_of_memory,
)
from roofsim.numeric import divide, is_scalar, maximum, where
from roofsim.records import replace
from roofsim.spec.constants.intervals import shipped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofsim.analyze.result import Memory
    from roofsim.evaluate import Evaluation
    from roofsim.numeric import Real
    from roofsim.spec.resolve import Resolved

#: The figures of memory that have an interval, each at least the one before.
FIGURES: Final = ("allocated_peak", "reserved", "device_total")
#: Why steps over a host that stands in for any other are wider.
UNKNOWN_HOST: Final = (
    "Whether cards of this host reach one another directly is not known; hardware/constants/links.yaml: staged"
)
#: Why steps over networks that hash flows are wider.
UNKNOWN_FLOWS: Final = (
    "How many flows share links of this network, or whether it spreads packets, is not known; "
    "hardware/constants/links.yaml: flows"
)
#: The term of what measurements on the card itself leave open.
OWN: Final = "own_kernels"
#: What limits a step -> the fields of a card, and those of a node, that state it.
_OF_CARD: Final = {
    "compute": ("peak", "vector_peak", "compute_units", "clock"),
    "memory_bandwidth": ("memory",),
    "power": ("tdp",),
    "intra_node_link": ("link",),
    "host_link": ("host_link",),
}
_OF_NODE: Final = {
    "intra_node_link": ("link",),
    "inter_node_link": ("nics_per_node", "node_network"),
    "host_link": ("host_link",),
    "host_memory": ("host",),
    "storage": ("storage",),
}


def interval(evaluation: Evaluation, *, crowded: Any = False) -> tuple[Any, Any]:
    """Return the 80 % interval of a step time, seconds; of several points two arrays.

    `crowded` memory may cost time that nobody can foresee.
    """
    return around(evaluation.step.step, *spread(interval_parts(evaluation, crowded=crowded)))


def interval_parts(
    evaluation: Evaluation, *, crowded: Any = False, communication: Real | None = None
) -> dict[str, tuple[Any, Any]]:
    """Return how far each term alone puts the lower and the upper end of a step time, as logarithms.

    `communication` is the share of the step that shows messages; None: the evaluation's own.
    """
    intervals, traits = shipped(), traits_of(evaluation)
    counted = time_amounts(traits if communication is None else replace(traits, communication=communication), intervals)
    full = where(crowded, 1.0, 0.0)
    if not (isinstance(full, float) and full == 0.0):
        counted["crowded"] = full
    from_memory = recalled_share(evaluation)
    if not (isinstance(from_memory, float) and from_memory == 0.0):
        counted["recalled"] = from_memory
    unknown = _unknown_host(evaluation) | _unknown_flows(evaluation)
    return parts_of(counted, intervals.ends("time")) | unknown | _own_kernels(evaluation)


def _own_kernels(evaluation: Evaluation) -> dict[str, tuple[Any, Any]]:
    """Return what measurements on the card itself leave open of the kernels that they cover, as logarithms."""
    if not evaluation.device.deviation.kernels:
        return {}
    error = own_kernels(evaluation).error
    return {OWN: (error, error)}


def recalled_figures(evaluation: Evaluation) -> dict[str, tuple[str, ...]]:
    """Return the figures from memory that limit a step, and which of its limits each states: ``a30 link`` -> intra_node_link."""
    resolved = evaluation.resolved
    figures: dict[str, tuple[str, ...]] = {}
    for owner, fields in ((resolved.gpu, _OF_CARD), (resolved.system, _OF_NODE)):
        for name in owner.recalled:
            head, _, part = name.partition(".")
            limits = tuple(limit for limit, stated in fields.items() if head in stated and _limits(evaluation, limit))
            if limits and part in ("", resolved.precision.math):
                figures[f"{owner.name} {name}"] = limits
    return figures


def recalled_share(evaluation: Evaluation) -> Real:
    """Return the share of a step that waits for what a recalled figure states."""
    limits = {limit for stated in recalled_figures(evaluation).values() for limit in stated}
    step = evaluation.step
    return sum((divide(step.resources[limit], step.step) for limit in sorted(limits)), 0.0)


def _limits(evaluation: Evaluation, limit: str) -> bool:
    """Tell whether a resource limits some part of a step."""
    seconds = evaluation.step.resources.get(limit, 0.0)
    return not (is_scalar(seconds) and seconds == 0.0)


def _unknown_host(evaluation: Evaluation) -> dict[str, tuple[Any, Any]]:
    """Return how much shorter and longer a step may be, as logarithms, where its collectives run over a host that nobody knows.

    A stand-in host is taken to let cards reach one another directly, or not to; a real one may do the other.
    """
    system, waits = evaluation.resolved.system, evaluation.step.waits
    if not system.stand_in or evaluation.resolved.gpus == 1:
        return {}
    from roofsim.spec.constants.links import shipped_links  # one card needs no links

    share, staged = waits.get("intra_node_link", 0.0) / evaluation.step.step, shipped_links().shared.staged
    direct = system.peer != "none" and system.topology != "pcie-no-peer"
    longer: Real = np.log1p(share * (1.0 / staged - 1.0))
    shorter: Real = -np.log1p(-share * (1.0 - staged))
    return {"unknown_host": (0.0, longer) if direct else (shorter, 0.0)}


def _unknown_flows(evaluation: Evaluation) -> dict[str, tuple[Any, Any]]:
    """Return how much shorter and longer a step may be, as logarithms, where flows meet on links of the network.

    How many flows a library opens, and whether switches spread their packets, is the cluster's: with the fewest that are plausible
    traffic takes longer, with packets spread no longer than one link's share.
    """
    share = evaluation.step.waits.get("inter_node_link", 0.0) / evaluation.step.step
    if is_scalar(share) and share == 0.0:
        return {}
    from roofsim.cost.links.congestion import crowding  # one node needs no network
    from roofsim.spec.constants.links import shipped_links

    system = evaluation.resolved.system
    network = shipped_links().network(system.network)
    if network.flows is None:
        return {}
    links = evaluation.resolved.gpus / system.gpus_per_node * max(system.nics_per_node or 1, 1)
    taken, most = crowding(links, network.flows), crowding(links, network.flows_least)
    return {"unknown_flows": (-np.log1p(share * (1.0 / taken - 1.0)), np.log1p(share * (most / taken - 1.0)))}


def around(value: Real, below: Real, above: Real) -> tuple[Any, Any]:
    """Return the ends of an interval around a value."""
    low, high = value * np.exp(-below), value * np.exp(above)
    return (low, high) if np.ndim(low) or np.ndim(high) else (float(low), float(high))


def interval_rows(parts: Mapping[str, tuple[Any, Any]]) -> list[dict[str, Any]]:
    """Return a row for each term that made the interval of a step: what, how far it puts the ends alone, and why."""
    terms = {name: f"{term.meaning} {term.source}" for name, term in shipped().time.items()}
    terms["unknown_host"] = UNKNOWN_HOST
    terms["unknown_flows"] = UNKNOWN_FLOWS
    terms[OWN] = "Kernels of one class scatter around what was measured of it on the card; hardware.calibration"
    rows = []
    for name, (below, above) in parts.items():
        if float(below) or float(above):
            value = f"{np.expm1(-float(below)):+.1%} .. {np.expm1(float(above)):+.1%}"
            rows.append({"what": f"interval.{name}", "value": value, "source": terms[name]})
    return rows


def nearly_full(memory: Memory, share: float) -> Any:
    """Tell whether a step that fits takes more than a share of the memory.

    Of the published runs of several GPUs predicted to be so full one in seven was 20 % slower than its neighbours, the
    others were not slow at all.
    """
    crowded = memory.device_total > share * memory.capacity
    return memory.fits & crowded


def memory_intervals(memory: Memory, resolved: Resolved) -> dict[str, tuple[Any, Any]]:
    """Return the 80 % intervals, in bytes, of what is allocated, reserved and shown by the device; arrays where these are.

    Neither end of a figure lies below that of what it contains: what is reserved holds what is allocated, and that the
    parameters and the cache, whose bytes are known.
    """
    traits, intervals = traits_of_memory(resolved), shipped()
    ends: dict[str, tuple[Any, Any]] = {}
    low = high = memory.components["parameters"] + memory.components["key_value_cache"]
    for name in FIGURES:
        value = getattr(memory, name)
        below, above = spread(memory_parts(traits, name, value, intervals))
        lower, upper = around(value, below, above)
        low, high = maximum(low, lower), maximum(high, upper)
        ends[name] = (float(low), float(high)) if is_scalar(low, high) else (low, high)
    return ends


def memory_is_measured(resolved: Resolved) -> bool:
    """Tell whether the memory of some run of this engine, in this regime, was held against its prediction."""
    known = shipped().measured.get(traits_of_memory(resolved).regime)
    return known is not None and resolved.engine.name in known.engines
