"""Find the hardware of a scenario: card, node and architecture, inline or from the catalog, with what-if values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError
from roofsim.spec import catalog
from roofsim.spec.architecture import Architecture
from roofsim.spec.constants import Constants, Overlay, shipped
from roofsim.spec.hardware import Gpu, System
from roofsim.spec.source import Document, from_mapping, is_file, read_yaml
from roofsim.spec.validate import validate
from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.spec.workload import HardwareChoice

#: A dense peak may lie a little above units x clock x FLOP per clock (other clocks); a sparse one lies at twice it.
SPARSE_SUSPICION: Final = 1.5

#: Names and kinds, which no override changes.
_FIXED: Final = ("name", "schema", "sources", "aliases", "architecture", "vendor", "gpu", "topology")


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """A card, its node, what its generation achieves of its datasheet, and what was assumed to get there."""

    gpu: Gpu
    system: System
    architecture: Architecture
    constants: Constants
    assumed: tuple[str, ...]


#: Cards that a host has room for, where nobody says more.
MOST_IN_A_HOST: Final = 16


def find_hardware(choice: HardwareChoice, scenario: Document) -> Hardware:
    """Find what the ``hardware`` section of a scenario names.

    Raises
    ------
    SpecError
        When a name is unknown, a value is wrong, or a peak looks like one with sparsity.
    """
    stated = isinstance(scenario.data, dict) and "gpu" in (scenario.data.get("hardware") or {})
    assumed: list[str] = []
    if not stated:
        own = _gpu_of_system(choice.system, scenario)
        assumed = [f"gpu: {choice.gpu}, as none is named" if own is None else f"gpu: {own}, that of {choice.system}"]
        choice = choice if own is None else choice.model_copy(update={"gpu": own})
    override = _overrides(choice.override, scenario)
    document = _gpu_document(choice.gpu, scenario, assumed)
    for path, value, place in override["gpu"]:
        document = document.with_value(path, value, place)
    gpu = validate(Gpu, document, prefix="gpu")
    node = _system_document(choice.system, gpu, scenario, assumed)
    for path, value, place in override["system"]:
        node = node.with_value(path, value, place)
    system = validate(System, node, prefix="system")
    place = scenario.place(("hardware", "gpu"))
    architecture = validate(Architecture, catalog.load("architecture", gpu.architecture, place, "gpu.architecture"))
    if not isinstance(choice.gpu, str) or any(key.startswith("gpu.peak") for key in choice.override):
        _refuse_sparse_peaks(gpu, architecture, scenario)
    found = Hardware(gpu=gpu, system=system, architecture=architecture, constants=shipped(), assumed=tuple(assumed))
    return found if choice.calibration is None else _calibrated(found, choice.calibration, scenario)


def _calibrated(found: Hardware, given: str, scenario: Document) -> Hardware:
    """Put measured constants of the card in the place of the shipped ones."""
    place = scenario.place(("hardware", "calibration"))
    path = next((folder / given for folder in (Path(), Path(scenario.source).parent) if is_file(folder / given)), None)
    if path is None:
        raise SpecError(Problem(f"no such file: {given}", place, "hardware.calibration"))
    overlay = validate(Overlay, read_yaml(path))
    if overlay.gpu != found.gpu.name:
        raise SpecError(
            Problem(f"{given} was measured on {overlay.gpu}, not on {found.gpu.name}", place, "hardware.calibration")
        )
    gpus = found.constants.gpus | {overlay.gpu: overlay.deviation}
    architecture, host = found.architecture, found.system.host
    if overlay.kernel_floor is not None:
        architecture = architecture.model_copy(update={"kernel_floor": overlay.kernel_floor})
    if overlay.issue_factor is not None:
        host = host.model_copy(update={"issue_factor": overlay.issue_factor})
    return replace(
        found,
        constants=found.constants.model_copy(update={"gpus": gpus}),
        architecture=architecture,
        system=found.system.model_copy(update={"host": host}),
        assumed=(*found.assumed, f"constants of {found.gpu.name}: {path}"),
    )


def _overrides(override: dict[str, Any], scenario: Document) -> dict[str, list[tuple[tuple[str, ...], Any, Place]]]:
    found: dict[str, list[tuple[tuple[str, ...], Any, Place]]] = {"gpu": [], "system": []}
    for key, value in _flat(override):
        head, *rest = key.split(".")
        place = scenario.place(("hardware", "override", key))
        if head not in found or not rest:
            raise SpecError(
                Problem(
                    f"cannot override {key!r}",
                    place,
                    "hardware.override",
                    "Paths begin with gpu. or system., for example gpu.memory.bandwidth: 3 TB/s.",
                )
            )
        if rest[0] in _FIXED:
            raise SpecError(Problem(f"{key} is no quantity that can be overridden", place, "hardware.override"))
        found[head].append((tuple(rest), value, place))
    return found


def _gpu_document(given: str | dict[str, Any], scenario: Document, assumed: list[str]) -> Document:
    place = scenario.place(("hardware", "gpu"))
    if isinstance(given, str):
        name = catalog.resolve_name("gpu", given, place, "hardware.gpu")
        if catalog.normal(given) != name:
            assumed.append(f"gpu {given}: {name}")
        return catalog.load("gpu", name)
    inline = scenario.part(("hardware", "gpu"), dict(given))
    inherits = inline.data.pop("inherits", "none")
    if inherits in ("none", None):
        defaults = {"name": "inline", "vendor": "unknown", "architecture": "generic"}
        return Document({**defaults, **inline.data}, inline.source, inline.places)
    document = catalog.load("gpu", str(inherits), place, "hardware.gpu.inherits")
    for path, value in _leaves(inline.data):
        document = document.with_value(path, value, inline.place(path))
    return document.with_value(("name",), given.get("name", f"{inherits} (changed)"), place)


def _gpu_of_system(given: str | dict[str, Any] | None, scenario: Document) -> str | None:
    """Return the card that a named node is sold with; None where no node is named or none belongs to it."""
    if not isinstance(given, str):
        return None
    node = catalog.load("system", given, scenario.place(("hardware", "system")), "hardware.system")
    return node.data.get("gpu") if isinstance(node.data.get("gpu"), str) else None


def _system_document(given: str | dict[str, Any] | None, gpu: Gpu, scenario: Document, assumed: list[str]) -> Document:
    place = scenario.place(("hardware", "system"))
    if isinstance(given, dict):
        inline = scenario.part(("hardware", "system"), given)
        defaults = {"name": "inline", "gpus_per_node": 1, "topology": "single"}
        return Document({**defaults, **given}, inline.source, inline.places)
    name = given or gpu.usual_system
    if name is None:
        assumed.append("system: a single-GPU host without stated links")
        return from_mapping({"name": "unstated", "gpus_per_node": 1, "topology": "single"}, "system")
    if given is None:
        assumed.append(f"system: {name}, the usual one of {gpu.name}")
    return catalog.load("system", name, place, "hardware.system")


def _refuse_sparse_peaks(gpu: Gpu, architecture: Architecture, scenario: Document) -> None:
    """Refuse an inline card whose 16-bit peak is more than its units can do per clock: a sparse figure."""
    dense_rate = architecture.flops_per_clock
    if dense_rate is None or gpu.clock is None:
        return
    for dtype in ("fp16", "bf16"):
        rate = gpu.flops_per_clock(dtype)
        if rate is None or rate <= SPARSE_SUSPICION * dense_rate:
            continue
        found, dense = gpu.peak[dtype], gpu.peak[dtype] * dense_rate / rate
        clock = humanize(gpu.clock.boost, "Hz", 4)
        raise SpecError(
            Problem(
                f"{humanize(found, 'FLOP/s', 4)} is {rate / dense_rate:.1f} times what {gpu.compute_units} "
                f"{architecture.name} units do at {clock}",
                scenario.place(("hardware", "gpu", "peak", dtype)),
                f"hardware.gpu.peak.{dtype}",
                f"That looks like a figure with sparsity; state the dense one, {humanize(dense, 'FLOP/s', 3)}.",
            )
        )


def _flat(mapping: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Write nested override mappings as dotted paths."""
    pairs: list[tuple[str, Any]] = []
    for key, value in mapping.items():
        if isinstance(value, dict):
            pairs += _flat(value, f"{prefix}{key}.")
        else:
            pairs.append((f"{prefix}{key}", value))
    return pairs


def _leaves(data: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    found: list[tuple[tuple[str, ...], Any]] = []
    for key, value in data.items():
        if isinstance(value, dict):
            found += _leaves(value, (*path, key))
        else:
            found.append(((*path, key), value))
    return found


def places(found: Hardware, choice: HardwareChoice) -> int:
    """Return the cards that a host of inference has room for: more than the usual node has, where nobody states one.

    Only of nodes whose cards have nothing but PCIe between them, and no network.
    """
    system = found.system
    described = choice.system is not None or any(key.startswith("system") for key in choice.override)
    alone = system.node_network is None and system.topology in ("single", "pcie", "pcie-no-peer", "bridge-pairs")
    return max(system.gpus_per_node, MOST_IN_A_HOST) if alone and not described else system.gpus_per_node


def joined(found: Hardware, choice: HardwareChoice, gpus: int) -> Hardware:
    """Return hardware whose cards stand in one host, where its usual node has too few `places` and nobody states another.

    Workstations stage what their cards send one another in host memory (GeForce and newer RTX cards have no peer access),
    servers do not.
    """
    system = found.system
    if not system.gpus_per_node < gpus <= places(found, choice):
        return found
    direct = system.topology == "pcie" or (system.topology == "single" and system.name.startswith("server"))
    topology, ways = ("pcie", "directly") if direct else ("pcie-no-peer", "staged in host memory")
    note = f"system: {gpus} x {found.gpu.name} in one host like {system.name}, over PCIe {ways}"
    node = system.model_copy(
        update={"gpus_per_node": gpus, "topology": topology, "name": f"{gpus} cards, {system.name}"}
    )
    return replace(found, system=node, assumed=(*found.assumed, note))
