"""Find the hardware of a scenario: card, node and architecture, inline or from the catalog, with what-if values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError
from roofsim.output import NOT_READ, are_closed
from roofsim.records import dataclass, replace
from roofsim.spec import catalog
from roofsim.spec.constants.kernels import Constants, Overlay, shipped
from roofsim.spec.hardware.architecture import Architecture
from roofsim.spec.hardware.schema import FIXED, UNKNOWN_VENDOR, Gpu, System
from roofsim.spec.hardware.stacks import of_stacks, restacked
from roofsim.spec.reading.factor import changed, factor_of
from roofsim.spec.reading.source import Document, from_mapping, is_file, read_yaml
from roofsim.spec.reading.validate import validate
from roofsim.spec.settle.held import held
from roofsim.spec.settle.stated import chosen
from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.spec.scenario.workload import HardwareChoice

#: A dense peak may lie a little above units x clock x FLOP per clock (other clocks); a sparse one lies at twice it.
SPARSE_SUSPICION: Final = 1.5

#: Kinds of nodes whose GPUs are not joined by links of their own.
HOST_ONLY: Final = ("single", "pcie", "pcie-no-peer")
#: How many systems an error names, and what describes one that no catalog has.
_SHOWN: Final = 6
_OWN_NODE: Final = "hardware.system: {gpus_per_node: 8, topology: nvswitch, link: {name: nvlink4, bandwidth: 450 GB/s}}"


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """A card, its node, what its generation achieves of its datasheet, and what was assumed to get there."""

    gpu: Gpu
    system: System
    architecture: Architecture
    constants: Constants
    assumed: tuple[str, ...]
    places: int
    """Cards that one node has room for: the system's, or those of the card's usual box where no system is named."""
    origins: tuple[tuple[str, str], ...] = ()


def find_hardware(choice: HardwareChoice, scenario: Document, gpus: int = 1) -> Hardware:
    """Find what the ``hardware`` section of a scenario names, for so many GPUs.

    Raises
    ------
    SpecError
        When a name is unknown, a value is wrong, a peak looks like one with sparsity, or the system cannot hold the card.
    """
    stated = isinstance(scenario.data, dict) and "gpu" in (scenario.data.get("hardware") or {})
    assumed: list[str] = []
    if not stated:
        own = _gpu_of_system(choice.system, scenario)
        assumed = [f"gpu: {choice.gpu}, as none is named" if own is None else f"gpu: {own}, that of {choice.system}"]
        choice = choice if own is None else choice.model_copy(update={"gpu": own})
    override = _overrides(choice.override, scenario)
    document = _gpu_document(choice.gpu, scenario, assumed)
    as_stated = document
    for path, value, place in override["gpu"]:
        document = changed(document, Gpu, path, value, place, "gpu")
    document, notes = restacked(document, as_stated, [path for path, _, _ in override["gpu"]])
    assumed += notes
    document = _with_own_price(document, [path for path, _, _ in override["gpu"]])
    gpu = held(validate(Gpu, document, prefix="gpu"), choice, scenario, assumed)
    boxed = choice.system is None and "system.gpus_per_node" not in choice.override
    usual = _usual_system(gpu, gpus if boxed else 1)
    node = _system_document(choice.system, gpu, usual, scenario, assumed)
    node = _with_links_of_card(node, override, assumed, gpus)
    if isinstance(choice.system, str):
        refuse_misfit(gpu, validate(System, node), scenario.place(("hardware", "system")), stated=stated)
    for path, value, place in override["system"]:
        node = changed(node, System, path, value, place, "system")
    node = _with_own_price(node, [path for path, _, _ in override["system"]])
    system = validate(System, node, prefix="system")
    assumed += _slower_ends(gpu, system, override)
    place = scenario.place(("hardware", "gpu"))
    architecture = validate(Architecture, catalog.load("architecture", gpu.architecture, place, "gpu.architecture"))
    # A factor on a peak is a what-if by its form; a figure may be one with sparsity.
    figures = any(path[0] == "peak" and factor_of(value) is None for path, value, _ in override["gpu"])
    if not isinstance(choice.gpu, str) or figures:
        _refuse_sparse_peaks(gpu, architecture, scenario)
    if gpu.clock is None:
        from roofsim.spec.settle.clocks import with_clock

        gpu = with_clock(gpu, validate(Gpu, as_stated, prefix="gpu"), architecture, assumed)
    box = _box_of(gpu) if boxed else None
    hardware = Hardware(
        gpu=gpu,
        system=system,
        architecture=architecture,
        constants=shipped(),
        assumed=tuple(assumed),
        places=max(system.gpus_per_node, 0 if box is None else box.gpus_per_node),
    )
    return hardware if choice.calibration is None else _calibrated(hardware, choice.calibration, scenario)


def _calibrated(hardware: Hardware, given: str, scenario: Document) -> Hardware:
    """Put measured constants of the card in the place of the shipped ones."""
    place = scenario.place(("hardware", "calibration"))
    path = overlay_path(given, scenario)
    if path is None:
        said = f"{given[:60]!r} {NOT_READ}" if are_closed() else f"no such file: {given}"
        raise SpecError(Problem(said, place, "hardware.calibration"))
    overlay = validate(Overlay, read_yaml(path))
    if overlay.gpu not in (None, hardware.gpu.name):
        raise SpecError(
            Problem(f"{given} was measured on {overlay.gpu}, not on {hardware.gpu.name}", place, "hardware.calibration")
        )
    deviation = overlay.deviation.model_copy(update={"launches": overlay.issue_factor is not None})
    if deviation.kernels:  # on what is predicted with the constants of the catalog
        shipped_deviation = hardware.constants.of_names(hardware.gpu.name, hardware.gpu.architecture)
        deviation = shipped_deviation.model_copy(update={"kernels": deviation.kernels})
    gpus = hardware.constants.gpus | ({} if overlay.gpu is None else {overlay.gpu: deviation})
    try:
        physics = hardware.constants.physics.with_values(overlay.physics)
    except ValueError as error:
        raise SpecError(Problem(str(error), place, "hardware.calibration")) from error
    architecture, host = hardware.architecture, hardware.system.host
    if overlay.kernel_floor is not None:
        architecture = architecture.model_copy(update={"kernel_floor": overlay.kernel_floor})
    if overlay.issue_factor is not None:
        host = host.model_copy(update={"issue_factor": overlay.issue_factor})
    return replace(
        hardware,
        constants=hardware.constants.model_copy(update={"gpus": gpus, "physics": physics}),
        architecture=architecture,
        system=hardware.system.model_copy(update={"host": host}),
        origins=((f"constants of {hardware.gpu.name if overlay.gpu else 'physics'}", f"file {path}"),),
    )


def overlay_path(given: str, scenario: Document) -> Path | None:
    """Return the file of an overlay: as it stands, or beside the scenario."""
    folders = (Path(), Path(scenario.source).parent)
    return next((folder / given for folder in folders if is_file(folder / given)), None)


def _overrides(override: dict[str, Any], scenario: Document) -> dict[str, list[tuple[tuple[str, ...], Any, Place]]]:
    overrides: dict[str, list[tuple[tuple[str, ...], Any, Place]]] = {"gpu": [], "system": []}
    for key, value in flat_override(override):
        head, *rest = key.split(".")
        place = scenario.place(("hardware", "override", key))
        if head not in overrides or not rest:
            raise SpecError(
                Problem(
                    f"cannot override {key!r}",
                    place,
                    "hardware.override",
                    "Paths begin with gpu. or system., for example gpu.memory.bandwidth: 3 TB/s.",
                )
            )
        if rest[0] in FIXED:
            raise SpecError(Problem(f"{key} is not a quantity that can be overridden", place, "hardware.override"))
        overrides[head].append((tuple(rest), value, place))
    return overrides


def _with_links_of_card(
    node: Document, override: dict[str, list[tuple[tuple[str, ...], Any, Place]]], assumed: list[str], gpus: int
) -> Document:
    """Apply what a scenario changes of a card's links to the other ends, those of its node; say where nothing reads it.

    Raises
    ------
    SpecError
        Where the cards of the node reach one another through the host, not over links of their own.
    """
    own = {path for path, _, _ in override["system"]}
    for path, value, place in override["gpu"]:
        if path[0] not in ("link", "host_link") or path in own:
            continue
        key, name = f"gpu.{'.'.join(path)}", node.data.get("name")
        if path[0] == "host_link":
            if node.data.get("host_link") is not None:
                node = changed(node, System, path, value, place, "system")
                assumed.append(f"system.{'.'.join(path)}: changed as {key} is, the slower end counts")
        elif gpus == 1:
            assumed.append(f"{key}: one GPU has no peer, nothing reads it")
        elif node.data.get("topology") in HOST_ONLY:
            message = f"the GPUs of {name} reach one another over PCIe through the host; nothing reads {key}"
            hint = "Override gpu.host_link instead, or name a --system whose GPUs are joined by links."
            raise SpecError(Problem(message, place, f"hardware.override.{key}", hint))
        elif node.data.get("link") is not None:
            node = changed(node, System, path, value, place, "system")
            assumed.append(f"system.{'.'.join(path)}: changed as {key} is, {name} has these links")
    return node


def _slower_ends(gpu: Gpu, system: System, override: dict[str, list[tuple[tuple[str, ...], Any, Place]]]) -> list[str]:
    """Say where a changed end of the link to the host is not the slower one, which traffic runs at."""
    ends = {"gpu": gpu.host_link, "system": system.host_link}
    rates = {name: 0.0 if link is None else link.bandwidth or 0.0 for name, link in ends.items()}
    said = []
    for name, other in (("gpu", "system"), ("system", "gpu")):
        given = ("host_link", "bandwidth") in {path for path, _, _ in override[name]}
        if given and 0.0 < rates[other] < rates[name]:
            said.append(
                f"{name}.host_link.bandwidth: {other}.host_link is slower, {humanize(rates[other], 'B/s', 3)}, and is read"
            )
    return said


def _with_own_price(document: Document, changes: list[tuple[str, ...]]) -> Document:
    """Say that a price which the scenario states is the user's: no seller asks it."""
    if ("price", "hourly") not in changes:
        return document
    hourly = ("hourly_date", "hourly_seller", "hourly_region", "hourly_old")
    price = {
        key: item for key, item in document.data["price"].items() if key not in hourly or ("price", key) in changes
    }
    if ("price", "hourly_kind") not in changes:
        price["hourly_kind"] = "own"
    return document.with_value(("price",), price, document.place(("price", "hourly")))


def _gpu_document(given: str | dict[str, Any], scenario: Document, assumed: list[str]) -> Document:
    place = scenario.place(("hardware", "gpu"))
    if isinstance(given, str):
        name = catalog.resolve_name("gpu", given, place, "hardware.gpu")
        assumed += chosen("gpu", given, name)
        return catalog.load("gpu", name)
    inline = scenario.part(("hardware", "gpu"), dict(given))
    inherits = inline.data.pop("inherits", "none")
    if inherits in ("none", None):
        defaults = {"name": "inline", "vendor": UNKNOWN_VENDOR, "architecture": "generic"}
        if "architecture" not in inline.data:
            assumed.append("gpu.architecture: generic")
        return of_stacks(Document({**defaults, **inline.data}, inline.source, inline.places), "hardware.gpu")
    parent = catalog.resolve_name("gpu", str(inherits), place, "hardware.gpu.inherits")
    assumed += chosen("gpu.inherits", str(inherits), parent)
    document = as_stated = catalog.load("gpu", parent)
    changes = leaves(inline.data)
    for path, value in changes:
        document = changed(document, Gpu, path, value, inline.place(path), "hardware.gpu")
    document, notes = restacked(document, as_stated, [path for path, _ in changes], "hardware.gpu")
    assumed += notes
    return document.with_value(("name",), given.get("name", f"{inherits} (changed)"), place)


def _gpu_of_system(given: str | dict[str, Any] | None, scenario: Document) -> str | None:
    """Return the card that a named node is sold with; None where no node is named or none belongs to it."""
    if not isinstance(given, str):
        return None
    node = catalog.load("system", given, scenario.place(("hardware", "system")), "hardware.system")
    return node.data.get("gpu") if isinstance(node.data.get("gpu"), str) else None


def _system_of(name: str | None) -> System | None:
    return None if name is None or not catalog.has("system", name) else validate(System, catalog.load("system", name))


def _box_of(gpu: Gpu) -> System | None:
    """Return the node for more cards than the usual one has room for, where that has no network to another."""
    usual = _system_of(gpu.usual_system)
    return None if usual is None or usual.node_network is not None else _system_of(gpu.usual_box)


def _usual_system(gpu: Gpu, gpus: int) -> str | None:
    """Return the node that so many of a card usually stand in."""
    usual = _system_of(gpu.usual_system)
    box = None if usual is None or gpus <= usual.gpus_per_node else _box_of(gpu)
    return gpu.usual_system if box is None else box.name


def _system_document(
    given: str | dict[str, Any] | None, gpu: Gpu, usual: str | None, scenario: Document, assumed: list[str]
) -> Document:
    place = scenario.place(("hardware", "system"))
    if isinstance(given, dict):
        inline = scenario.part(("hardware", "system"), given)
        defaults = {"name": "inline", "gpus_per_node": 1, "topology": "single"}
        assumed += [f"system.{key}: {value}" for key, value in defaults.items() if key != "name" and key not in given]
        return Document({**defaults, **given}, inline.source, inline.places)
    name = given or usual
    if name is None:
        assumed.append("system: a single-GPU host without stated links")
        return from_mapping({"name": "unstated", "gpus_per_node": 1, "topology": "single"}, "system")
    if given is None:
        what = "the usual one" if name == gpu.usual_system else "the usual one for several"
        assumed.append(f"system: {name}, {what} of {gpu.name}{_over(name) if name == gpu.usual_box else ''}")
    full_name = catalog.resolve_name("system", name, place, "hardware.system")
    assumed += chosen("system", name, full_name)
    return catalog.load("system", full_name)


def _over(name: str) -> str:
    """Say how the cards of a box reach one another, where that is PCIe alone."""
    ways = {"pcie": ", over PCIe directly", "pcie-no-peer": ", over PCIe staged in host memory"}
    return ways.get(str(catalog.load("system", name).data.get("topology")), "")


def refuse_misfit(gpu: Gpu, system: System, place: Place, *, stated: bool = True) -> None:
    """Refuse a node whose sockets or links are not the card's.

    Raises
    ------
    SpecError
        With the systems that hold it; where nobody stated the card, with what to state.
    """
    why = misfit(gpu, system)
    if why is None:
        return
    if not stated and system.gpu is None:
        message, hint = (
            f"{system.name} takes any card of form {system.form}, and none is named",
            "Name one: --gpu NAME.",
        )
        raise SpecError(Problem(message, place, "hardware.gpu", hint))
    able = [
        (name, node) for name in catalog.names("system") if (node := _system_of(name)) and misfit(gpu, node) is None
    ]
    usual = [name for name in dict.fromkeys((gpu.usual_system, gpu.usual_box)) if name is not None]
    own = [name for name, node in able if node.gpu in (gpu.name, None)] or [name for name, _ in able]
    shown = list(dict.fromkeys((*usual, *own)))[:_SHOWN]
    more = ", ..." if len(own) > _SHOWN else ""
    message = f"{system.name} cannot hold {gpu.name}: {why}"
    hint = f"These hold it: {', '.join(shown)}{more}. Or state a node of your own: {_OWN_NODE}."
    raise SpecError(Problem(message, place, "hardware.system", hint))


def misfit(gpu: Gpu, system: System) -> str | None:
    """Say why a node cannot hold a card; None where it can, or where nothing is known that speaks against it."""
    if gpu.form is not None and system.form is not None and gpu.form != system.form:
        return f"its GPUs have form {system.form}, the card has form {gpu.form}"
    if system.topology in HOST_ONLY or system.link is None or gpu.link is None:
        return None
    if system.link.name == gpu.link.name and (system.link.bandwidth or 0.0) <= (gpu.link.bandwidth or 0.0):
        return None  # a maker may wire fewer links than a card has
    theirs, own = (f"{link.name} of {humanize(link.bandwidth or 0.0, 'B/s', 4)}" for link in (system.link, gpu.link))
    return f"its GPUs are joined by {theirs} each, the card has {own}"


def _refuse_sparse_peaks(gpu: Gpu, architecture: Architecture, scenario: Document) -> None:
    """Refuse an inline card whose 16-bit peak is more than its units can do per clock: a sparse figure."""
    dense_rate = architecture.flops_per_clock
    if dense_rate is None or gpu.clock is None:
        return
    for dtype in ("fp16", "bf16"):
        rate = gpu.flops_per_clock(dtype)
        if rate is None or rate <= SPARSE_SUSPICION * dense_rate:
            continue
        stated, dense = gpu.peak[dtype], gpu.peak[dtype] * dense_rate / rate
        clock = humanize(gpu.clock.boost, "Hz", 4)
        raise SpecError(
            Problem(
                f"{humanize(stated, 'FLOP/s', 4)} is {rate / dense_rate:.1f} times what {gpu.compute_units} "
                f"{architecture.name} units do at {clock}",
                scenario.place(("hardware", "gpu", "peak", dtype)),
                f"hardware.gpu.peak.{dtype}",
                f"That looks like a figure with sparsity; state the dense one, {humanize(dense, 'FLOP/s', 3)}.",
            )
        )


def flat_override(mapping: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Write nested override mappings as dotted paths; an empty one is a value."""
    pairs: list[tuple[str, Any]] = []
    for key, value in mapping.items():
        if isinstance(value, dict) and value:
            pairs += flat_override(value, f"{prefix}{key}.")
        else:
            pairs.append((f"{prefix}{key}", value))
    return pairs


def leaves(data: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """Return every value of nested mappings with the path of its keys; an empty mapping is one."""
    values: list[tuple[tuple[str, ...], Any]] = []
    for key, value in data.items():
        if isinstance(value, dict) and value:
            values += leaves(value, (*path, key))
        else:
            values.append(((*path, key), value))
    return values
