"""Fit the constants of links and networks to measured collectives, block by block."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.optimize import least_squares

from roofsim.records import dataclass
from roofsim_evidence.collectives.measured import predict
from roofsim_evidence.collectives.start import start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.numeric import Array
    from roofsim.spec.constants.links import Links
    from roofsim_evidence.collectives.measured import Collectives, Mask

Path = tuple[str, ...]

#: Relative error that counts as one unit of misfit; beyond it errors weigh linearly, so that medians are fitted.
TOLERANCE: Final = 0.05
#: Standard deviation of the logarithm of a starting value, as a belief.
BELIEF: Final = 1.0
MOST_STEPS: Final = 60

LINK: Final = ("efficiency", "launch", "step", "handshake", "handshake_step", "small", "fill", "fill_step", "ramp")
EXCHANGE: Final = ("exchange_step", "exchange_handshake", "exchange_small")
SWITCH: Final = ("efficiency", "launch")
CUSTOM: Final = ("launch_one", "launch_two", "step", "efficiency_one", "efficiency_two")
NETWORK: Final = ("efficiency", "step", "fill", "ramp", "point", "point_efficiency")
COPIES: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
#: Constants that nothing brings above 1.
SHARES: Final = (
    "efficiency",
    "efficiency_one",
    "efficiency_two",
    "exchange_efficiency",
    "point_efficiency",
    "sockets",
    "staged",
)

#: Kind of NVLink behind switches -> the system whose tables show it alone.
SWITCHED: Final = {"nvlink3": "dgx-a100", "nvlink4": "dgx-h100", "nvlink5": "dgx-b200"}
#: Kind of network -> system that shows it.
NETWORKS: Final = {"infiniband": "dgx-h100", "infiniband-staged": "azure-nd-a100-v4", "efa": "aws-p6-b200"}
#: Kind of bridge -> system that shows it between two GPUs.
BRIDGES: Final = {"nvlink3-bridge": "azure-nc96ads-a100-v4", "nvlink4-bridge": "server-4x-h100-pcie-nvlink"}
#: Kind of PCIe -> systems that show it, beyond the bridges.
BUSES: Final = {
    "pcie3": ("server-8x-p100-pcie", "server-8x-gtx1080ti"),
    "pcie4": ("azure-nc96ads-a100-v4",),
    "pcie5": ("server-8x-arc-b60", "server-4x-h100-pcie-nvlink"),
}
#: Engines with all-reduce kernels of their own.
ENGINES: Final = ("vllm", "sglang", "tensorrt-llm")


@dataclass(frozen=True)
class ConstantGroup:
    """Constants that are fitted together, and the rows that they are fitted to."""

    paths: tuple[Path, ...]
    rows: Mask


def get(links: Links, path: Path) -> float:
    """Return one constant."""
    value: Any = links
    for key in path:
        value = value[key] if isinstance(value, dict) else getattr(value, key)
    return float(value)


def put(links: Links, values: dict[Path, float]) -> Links:
    """Return constants with some replaced."""
    changed: Any = links
    for path, value in values.items():
        changed = _put(changed, path, value)
    replaced: Links = changed
    return replaced


def _put(node: Any, path: Path, value: float) -> Any:
    key, *rest = path
    held = node[key] if isinstance(node, dict) else getattr(node, key)
    new = _put(held, tuple(rest), value) if rest else value
    return {**node, key: new} if isinstance(node, dict) else node.model_copy(update={key: new})


def fit(table: Collectives, use: Mask, known: Links | None = None) -> Links:
    """Fit all constants that the rows in use say something about; the others take their family's means.

    Parameters
    ----------
    known
        Constants fitted to all rows that may be fitted: blocks that lose no row are taken from them.
    """
    links = start()
    for block, whole in zip(_blocks(table, use), _blocks(table, table.fitted), strict=True):
        if known is not None and np.array_equal(block.rows, whole.rows):
            links = put(links, {path: get(known, path) for path in block.paths})
        else:
            links = _fitted(table, links, block)
    return _with_families(links, table, use)


def _blocks(table: Collectives, use: Mask) -> list[ConstantGroup]:
    return [_switched(table, use), *_others(table, use)]


def _fitted(table: Collectives, links: Links, block: ConstantGroup) -> Links:
    """Return constants with one block fitted by least squares on the logarithm of time, beliefs included."""
    rows = table.only(block.rows)
    if len(rows) == 0 or not block.paths:
        return links
    high = np.array([0.0 if _is_share(path) else np.inf for path in block.paths])
    believed = np.minimum(np.log([get(links, path) for path in block.paths]), high - TOLERANCE)
    target = np.log(rows.seconds)

    def misfit(theta: Array) -> Array:
        constants = put(links, dict(zip(block.paths, np.exp(theta).tolist(), strict=True)))
        missed = (np.log(predict(rows, constants)) - target) / TOLERANCE
        bounded = np.sqrt(2.0 * (np.sqrt(1.0 + missed**2) - 1.0))
        return np.concatenate([bounded, (theta - believed) / BELIEF])

    width = 10.0 * BELIEF
    limits = (believed - width, np.minimum(believed + width, high))
    theta = least_squares(misfit, believed, bounds=limits, max_nfev=MOST_STEPS).x
    return put(links, dict(zip(block.paths, np.exp(theta).tolist(), strict=True)))


def _is_share(path: Path) -> bool:
    return path[-1] in SHARES or (path[0], path[-1]) == ("networks", "ramp")


def _switched(table: Collectives, use: Mask) -> ConstantGroup:
    """Return the block of NVLink behind switches, together with what all links share."""
    use = (
        use
        & (table.of(library="nccl") | table.of(library="nccl-8bit"))
        & (table.per_node == table.ranks)
        & ~table.by_host
    )
    rows = np.zeros_like(use)
    paths: list[Path] = [("shared", "own_copy", op) for op in COPIES]
    paths += [("shared", "exchange_efficiency"), ("shared", "corner")]
    for kind, system in SWITCHED.items():
        mine = use & table.of(system=system)
        if mine.any():
            rows |= mine
            paths += [("links", kind, name) for name in (*LINK, *EXCHANGE)]
            paths += [("switches", kind, name) for name in SWITCH] if kind != "nvlink3" else []
    return ConstantGroup(tuple(paths), rows)


def _others(table: Collectives, use: Mask) -> list[ConstantGroup]:
    """Return the blocks of engines' own kernels, bridges, PCIe and networks."""
    inside = table.per_node == table.ranks
    blocks = []
    for (kind, system), engine in product(SWITCHED.items(), ENGINES):
        rows = use & table.of(system=system, library=engine)
        blocks.append(ConstantGroup(tuple(("custom", engine, kind, name) for name in CUSTOM), rows))
    for kind, system in BRIDGES.items():
        rows = use & table.of(system=system) & inside & (table.ranks == 2)
        blocks.append(
            ConstantGroup(tuple(("links", kind, name) for name in ("efficiency", "launch", "fill", "ramp")), rows)
        )
    bus = np.zeros_like(use)
    paths: list[Path] = [("shared", "sockets"), ("shared", "staged")]
    for kind, systems in BUSES.items():
        for system in systems:
            mine = (
                use & table.of(system=system) & inside & ((table.ranks > 2) | ~table.of(system=BRIDGES.get(kind, "")))
            )
            bus |= mine & ~_bridged(table, system)
        paths += [("links", kind, name) for name in LINK]
    blocks.append(ConstantGroup(tuple(paths), bus))
    for kind, system in NETWORKS.items():
        rows = use & table.of(system=system) & ~inside
        names = ("point", "point_efficiency") if kind == "infiniband" else NETWORK[: 4 if kind == "efa" else None]
        blocks.append(ConstantGroup(tuple(("networks", kind, name) for name in names), rows))
    return blocks


def _bridged(table: Collectives, system: str) -> Mask:
    """Mark the rows of pairs on a system with bridges."""
    return (
        table.of(system=system) & (table.ranks == 2) if system in BRIDGES.values() else np.zeros(len(table), dtype=bool)
    )


def _with_families(links: Links, table: Collectives, use: Mask) -> Links:
    """Put geometric means of the kinds that rows in use show in the place of families, and of kinds without rows."""
    nvlinks = [kind for kind, system in SWITCHED.items() if (use & table.of(system=system)).any()]
    buses = [kind for kind, systems in BUSES.items() if any((use & table.of(system=name)).any() for name in systems)]
    for family, shown, kinds in (("nvlink", nvlinks, tuple(SWITCHED)), ("pcie", buses, tuple(BUSES))):
        unseen = [kind for kind in kinds if kind not in shown]
        for name in (*LINK, *EXCHANGE):
            links = _mean(
                links, [("links", kind, name) for kind in shown], [("links", kind, name) for kind in (family, *unseen)]
            )
    switches = [kind for kind in nvlinks if kind in links.switches]
    for name in SWITCH:
        others = [kind for kind in links.switches if kind not in switches]
        links = _mean(
            links, [("switches", kind, name) for kind in switches], [("switches", kind, name) for kind in others]
        )
    return _with_engines(links, table, use)


def _with_engines(links: Links, table: Collectives, use: Mask) -> Links:
    """Put means over kinds of link, and over engines, in the place of engines' kernels that no row in use shows."""
    shown = {
        (engine, kind): (use & table.of(system=system, library=engine)).any()
        for engine, (kind, system) in product(ENGINES, SWITCHED.items())
    }
    seen = [key for key, rows in shown.items() if rows]
    for name in CUSTOM:
        for kind in SWITCHED:
            mine = [("custom", *key, name) for key in seen if key[1] == kind] or [
                ("custom", *key, name) for key in seen
            ]
            links = _mean(links, mine, [("custom", "any", kind, name)])
        links = _mean(links, [("custom", *key, name) for key in seen], [("custom", "any", "nvlink", name)])
        for engine in ENGINES:
            mine = [("custom", *key, name) for key in seen if key[0] == engine] or [("custom", "any", "nvlink", name)]
            others = [("custom", engine, kind, name) for kind in ("nvlink", *SWITCHED) if (engine, kind) not in seen]
            links = _mean(links, mine, others)
    return links


def _mean(links: Links, sources: Sequence[Path], targets: Sequence[Path]) -> Links:
    """Write the geometric mean of some constants into others."""
    mean = float(np.exp(np.mean([np.log(get(links, path)) for path in sources])))
    return put(links, dict.fromkeys(targets, mean))
