"""Check what is offloaded against the phase, the sharding and what is known of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.errors import Problem, SpecError

if TYPE_CHECKING:
    from roofsim.spec.hardware import Gpu, System
    from roofsim.spec.source import Document
    from roofsim.spec.workload import Offload, Parallel, Workload

#: Parts of the state that may lie elsewhere.
PARTS = ("parameters", "gradients", "optimizer_state", "activations")


def places(offload: Offload) -> dict[str, str]:
    """Return where each part lies that is not on the device."""
    return {name: place for name in PARTS if (place := getattr(offload, name)) != "none"}


def check_offload(parallel: Parallel, workload: Workload, system: System, gpu: Gpu, document: Document) -> None:
    """Refuse an offload that no engine runs, or whose time nobody can tell.

    Raises
    ------
    SpecError
        Names what goes with it, or the number of the system that is missing.
    """
    moved = places(parallel.offload)
    if not moved:
        return
    refusal = _combination(parallel, workload, moved) or _unknown(system, gpu, moved, workload.phase)
    if refusal is not None:
        part, message, hint = refusal
        path = ("parallel", "offload", part)
        raise SpecError(Problem(message, document.place(path), ".".join(path), hint))


def _combination(parallel: Parallel, workload: Workload, moved: dict[str, str]) -> tuple[str, str, str] | None:
    """Return the part that cannot be offloaded so, why, and what would be possible."""
    if workload.phase != "train":
        other = next((part for part in moved if part != "parameters"), "")
        return (
            (other, f"{other} cannot be offloaded in phase {workload.phase}", "parameters can be.") if other else None
        )
    updated = next((part for part in ("optimizer_state", "gradients") if part in moved), "")
    whole = parallel.sharding in ("optimizer", "gradients")
    message, hint, part = "", "", next(iter(moved))
    if workload.optimizer == "none" and updated:
        message, hint, part = "no optimizer uses it (optimizer: none)", "Leave it out, or choose an optimizer.", updated
    elif workload.optimizer != "none" and "optimizer_state" not in moved and part != "activations":
        message, hint = f"{part} off the device are updated by the host", "Offload optimizer_state too."
    elif workload.optimizer == "muon" and updated:
        message, hint = "muon's matrix products on the host are not priced by this version", "Use adamw."
    elif "parameters" in moved and whole:
        message, hint = f"sharding {parallel.sharding} keeps whole parameters on every device", "Use sharding: full."
    return (part, message, hint) if message else None


def _unknown(system: System, gpu: Gpu, moved: dict[str, str], phase: str) -> tuple[str, str, str] | None:
    """Return which number is needed and not stated."""
    first = next(iter(moved))
    links = (system.host_link, gpu.host_link)
    if all(link is None or link.bandwidth is None for link in links):
        return first, *_missing(
            system, "host_link.bandwidth", "31.5 GB/s", "host_link: {name: pcie4, bandwidth: 31.5 GB/s}"
        )
    if "optimizer_state" in moved and system.host.memory_bandwidth is None:
        return "optimizer_state", *_missing(system, "host.memory_bandwidth", "200 GB/s", "")
    stored = next((part for part, place in moved.items() if place == "nvme"), None)
    if stored is not None and system.storage.read is None:
        return stored, *_missing(system, "storage.read", "7 GB/s", "")
    if stored is not None and system.storage.write is None and phase == "train":
        return stored, *_missing(system, "storage.write", "5 GB/s", "")
    return None


def _missing(system: System, key: str, example: str, inline: str) -> tuple[str, str]:
    shown = inline or f"hardware.override: {{system.{key}: {example}}}"
    return f"system {system.name} does not state {key}", f"State it, for example {shown}."
