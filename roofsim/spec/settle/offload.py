"""Check what is offloaded against the phase, the sharding and what is known of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.errors import Problem, SpecError
from roofsim.numeric import Real, minimum
from roofsim.spec.scenario.offload import HOST, TIERS
from roofsim.spec.scenario.workload import MATRIX_OPTIMIZERS
from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.spec.engine.schema import Engine
    from roofsim.spec.hardware.schema import Gpu, System
    from roofsim.spec.model.base import ModelSpec
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.offload import Offload
    from roofsim.spec.scenario.workload import Parallel, Workload

#: Parts of the state that may be off the device.
PARTS = ("parameters", "experts", "gradients", "optimizer_state", "activations", "key_value_cache")

#: Those that the update reads and writes.
_UPDATED: Final = ("gradients", "optimizer_state")
#: Those of inference.
SERVED: Final = ("parameters", "experts", "key_value_cache")


def places(offload: Offload) -> dict[str, str]:
    """Return where each part lies that is not on the device."""
    place_of = {name: getattr(offload, name) for name in PARTS}
    place_of |= {"parameters": offload.parameters_at, "experts": offload.experts_at}
    return {name: place for name, place in place_of.items() if place != "none"}


def beside_copies(offload: Offload, phase: str, engine: Engine, num_layers: Real) -> Real:
    """Return the share of a forward pass's arithmetic that copies of weights run behind.

    One layer is fetched ahead. Of the first layers alone that is behind their own arithmetic; an engine that computes host
    layers, and copies them for long passes, fetches nothing ahead.
    """
    if phase == "train" or (offload.parameters_at == "none" and offload.experts_at == "none"):
        return 1.0
    if engine.offload.layers == "computed":
        return 0.0
    if offload.layers is None or offload.key_value_cache != "none":
        return 1.0
    return minimum(offload.layers / num_layers, 1.0)


def host_memory(
    system: System, parallel: Parallel, engine: Engine, phase: str, desktop: float
) -> tuple[System, list[str]]:
    """Return the system with the bandwidth of its memory, where the host computes or attends and nobody states it; with a note.

    `desktop` are the bytes per second of the memory of a desktop.
    """
    weights = parallel.offload.parameters_at != "none" or parallel.offload.experts_at != "none"
    layers = engine.offload.layers == "computed" and weights
    attends = engine.offload.cache == "computed" and parallel.offload.key_value_cache != "none"
    computes = phase != "train" and (layers or attends)
    if not computes or system.host.memory_bandwidth is not None:
        return system, []
    host = system.host.model_copy(update={"memory_bandwidth": desktop})
    shown = humanize(desktop, "B/s", 3)
    note = f"system.host.memory_bandwidth: {shown}, two channels of DDR4-3200, for what is computed there"
    return system.model_copy(update={"host": host}), [note]


def check_offload(
    parallel: Parallel,
    workload: Workload,
    system: System,
    gpu: Gpu,
    model: ModelSpec,
    engine: Engine,
    document: Document,
) -> None:
    """Refuse an offload that no engine runs, or whose time nobody can tell.

    Raises
    ------
    SpecError
        Names what goes with it, or the number of the system that is missing.
    """
    moved = places(parallel.offload)
    refusal = _part(parallel.offload, workload, model)
    if refusal is None and moved:
        refusal = _combination(parallel, workload, moved) or _served(workload, moved, model, engine)
        refusal = refusal or _unknown(system, gpu, moved, workload.phase)
    if refusal is not None:
        part, message, hint = refusal
        path = ("parallel", "offload", part)
        code = f"offload-{part.replace('_', '-')}"
        raise SpecError(Problem(message, document.place(path), ".".join(path), hint, code))


def _part(offload: Offload, workload: Workload, model: ModelSpec) -> tuple[str, str, str] | None:
    """Return what is wrong with asking for a part of the weights only."""
    if not offload.partial:
        return None
    key, layers = "parameters" if offload.layers is None else "layers", model.traits().layers
    if workload.phase == "train":
        return key, "a part of the parameters can be offloaded in inference only", "Offload all of them, or none."
    if offload.layers is None:
        return None
    if not model.decoder_only() or layers is None:
        return (
            key,
            f"{model.name} is a {model.family}, not one stack of layers",
            "Give a share: parameters: {host: 0.5}.",
        )
    if offload.layers > layers:
        return key, f"{offload.layers} layers, but {model.name} has {layers}", f"Give 0 to {layers}."
    return None


def _served(workload: Workload, moved: dict[str, str], model: ModelSpec, engine: Engine) -> tuple[str, str, str] | None:
    """Return what inference cannot do with what is moved."""
    if workload.phase == "train":
        return None
    if "experts" in moved and not model.traits().experts:
        return "experts", f"{model.name} has no routed experts", "parameters: {host: 0.5} moves layers."
    if "key_value_cache" in moved and (workload.phase == "forward" or not model.generates):
        return "key_value_cache", f"{model.name} keeps no cache in phase {workload.phase}", "Leave it out."
    for part, does, what in (
        ("parameters", engine.offload.layers, "computes the layers that are not on the device"),
        ("experts", engine.offload.layers, "computes the experts that are not on the device"),
        ("key_value_cache", engine.offload.cache, "attends to a cache that is not on the device"),
    ):
        if does == "computed" and moved.get(part, HOST) != HOST:
            return part, f"engine {engine.name} {what} from host memory", f"Use {part}: host."
    return None


def _combination(parallel: Parallel, workload: Workload, moved: dict[str, str]) -> tuple[str, str, str] | None:
    """Return the part that cannot be offloaded so, why, and what would be possible."""
    if workload.phase != "train":
        other = next((part for part in moved if part not in SERVED), "")
        hint = f"{' and '.join(SERVED)} can be."
        return (other, f"{other} cannot be offloaded in phase {workload.phase}", hint) if other else None
    if "experts" in moved:
        return "experts", "experts alone can be off the device in inference only", "Offload all parameters, or none."
    if "key_value_cache" in moved:
        return (
            "key_value_cache",
            "training keeps no cache of keys and values",
            "Leave it out; activations can be offloaded.",
        )
    updated = next((part for part in ("optimizer_state", "gradients") if part in moved), "")
    whole = parallel.sharding in ("optimizer", "gradients")
    message, hint, part = "", "", next(iter(moved))
    if workload.optimizer == "none" and updated:
        message, hint, part = "no optimizer uses it (optimizer: none)", "Leave it out, or choose an optimizer.", updated
    elif workload.optimizer != "none" and "optimizer_state" not in moved and part != "activations":
        message, hint = f"{part} off the device are updated by the host", "Offload optimizer_state too."
    elif workload.optimizer in MATRIX_OPTIMIZERS and updated:
        message, hint = (
            f"{workload.optimizer}'s matrix products on the host are not priced by this version",
            "Use adamw.",
        )
    elif len({place for part, place in moved.items() if part in _UPDATED and place != HOST}) > 1:
        message = "gradients and optimizer state in two places beside host memory are not priced by this version"
        hint, part = "Keep one of them on the host, or both in one place.", updated
    elif "parameters" in moved and whole:
        message, hint = f"sharding {parallel.sharding} keeps whole parameters on every device", "Use sharding: full."
    return (part, message, hint) if message else None


def _unknown(system: System, gpu: Gpu, moved: dict[str, str], phase: str) -> tuple[str, str, str] | None:
    """Return which place or number is needed and not stated."""
    first = next(iter(moved))
    there = next((part for part, place in moved.items() if place == HOST), None)
    if gpu.memory.unified and there is not None:
        message = f"the memory of {gpu.name} is that of its host: moving {there} there frees nothing"
        return there, message, "Leave it on the device, or name storage: nvme."
    links = (system.host_link, gpu.host_link)
    if all(link is None or link.bandwidth is None for link in links):
        return first, *_missing(
            system, "host_link.bandwidth", "31.5 GB/s", "host_link: {name: pcie4, bandwidth: 31.5 GB/s}"
        )
    if "optimizer_state" in moved and system.host.memory_bandwidth is None:
        return "optimizer_state", *_missing(system, "host.memory_bandwidth", "200 GB/s", "")
    for part, place in moved.items():
        refusal = missing_of_place(system, place, writes=phase == "train" or part == "key_value_cache")
        if refusal is not None:
            return part, *refusal
    return None


def missing_of_place(system: System, place: str, *, writes: bool) -> tuple[str, str] | None:
    """Return what a system does not state of a place."""
    if place == "cxl" and system.cxl is None:
        example = "{system.cxl.capacity: 512 GiB, system.cxl.bandwidth: 64 GB/s}"
        return f"system {system.name} has no memory behind CXL", f"State it: hardware.override: {example}."
    if not TIERS[place].storage:
        return None
    store = system.remote_storage if TIERS[place].remote else system.storage
    read, write = TIERS[place].rates
    if store is None:
        example = f"{{system.{read}: 10 GB/s, system.{write}: 5 GB/s}}"
        return f"system {system.name} reaches no storage over its network", f"State it: hardware.override: {example}."
    needed = [(read, store.read, "7 GB/s")]
    needed += [(write, store.write, "5 GB/s")] if writes else []
    needed += [("node_network", system.node_network, "200 Gbit/s")] if TIERS[place].remote else []
    missing = [(key, example) for key, rate, example in needed if rate is None]
    return _missing(system, *missing[0], "") if missing else None


def _missing(system: System, key: str, example: str, inline: str) -> tuple[str, str]:
    shown = inline or f"hardware.override: {{system.{key}: {example}}}"
    return f"system {system.name} does not state {key}", f"State it, for example {shown}."
