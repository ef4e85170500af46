"""Tabulate the time of collectives on a system, by message size and number of ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.cost.links.collectives import KINDS, collective_time, fabric_of
from roofsim.errors import Place, Problem, SpecError, UnknownNameError, did_you_mean
from roofsim.spec import catalog
from roofsim.spec.hardware.schema import Gpu, System
from roofsim.spec.reading.validate import validate
from roofsim.spec.settle.hardware import refuse_misfit
from roofsim.units import humanize, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.cost.links.collectives import Fabric

#: Sizes shown where none are given: powers of four.
SIZES: Final = tuple(float(4**power) for power in range(5, 17))
#: No tensor of a known model comes near this.
LARGEST: Final = parse("1 PB", "B")
#: More ranks than in any cluster.
MOST_RANKS: Final = 10_000_000
#: Nodes shown beyond one where no ranks are given.
NODES: Final = (2, 4, 16)
PARTS: Final = ("latency", "intra_node", "inter_node")


def system_and_gpu(system: str, gpu: str | None) -> tuple[System, Gpu]:
    """Return a system of the catalog and the GPU in it.

    Raises
    ------
    SpecError
        For unknown names, systems that take any GPU when none is named, and those that cannot hold the GPU.
    """
    loaded = validate(System, catalog.load("system", system, Place("--system")))
    name = gpu or loaded.gpu
    if name is None:
        raise SpecError(Problem(f"{loaded.name} can hold any GPU", Place("--gpu"), hint="Name one with --gpu."))
    card = validate(Gpu, catalog.load("gpu", name, Place("--gpu")))
    refuse_misfit(card, loaded, Place("--system"))
    return loaded, card


def usual_ranks(system: System) -> list[int]:
    """Return powers of two up to the node, and some nodes if a network is stated."""
    node = system.gpus_per_node
    ranks = [2**power for power in range(1, node.bit_length()) if 2**power <= node]
    ranks += [node] if node > 1 and node not in ranks else []
    return ranks + [node * count for count in NODES if system.node_network]


def collective_rows(
    system: System,
    gpu: Gpu,
    op: str,
    ranks: Sequence[int],
    sizes: Sequence[float],
    *,
    stride: int = 1,
    custom: str | None = None,
) -> list[dict[str, Any]]:
    """Return one row a size and number of ranks: time, bandwidths, and what the time is made of.

    Raises
    ------
    SpecError
        For an unknown operation, sizes or ranks that cannot be.
    NoDataError
        When a bandwidth that is needed is not stated.
    """
    name = op.strip().lower().replace("-", "_")
    if name not in KINDS:
        known = f"known: {', '.join(KINDS)}"
        raise UnknownNameError(
            Problem(f"unknown operation {op[:80]!r}; {known}", Place("--op"), hint=did_you_mean(name, KINDS))
        )
    _check(system, ranks, sizes, stride)
    fabric = fabric_of(system, gpu, gpu.architecture)
    return [row for count in ranks for row in _rows(system, fabric, name, count, sizes, stride, custom)]


def _rows(
    system: System, fabric: Fabric, op: str, ranks: int, sizes: Sequence[float], stride: int, custom: str | None
) -> list[dict[str, Any]]:
    message = np.asarray(sizes, dtype=np.float64)
    time = collective_time(op, message, float(ranks), float(stride), fabric, custom=custom)
    members = min(ranks, max(system.gpus_per_node // stride, 1))
    factor = bus_factor(op, ranks)
    rows = []
    for index, size in enumerate(message.tolist()):
        seconds = float(np.broadcast_to(time.seconds, message.shape)[index])
        parts = {part: float(np.broadcast_to(getattr(time, part), message.shape)[index]) for part in PARTS}
        rate = size / seconds if seconds > 0.0 else 0.0
        rows.append(
            {
                "system": system.name,
                "op": op,
                "ranks": ranks,
                "nodes": -(-ranks // members),
                "bytes": size,
                "seconds": seconds,
                "algorithm_bandwidth": rate,
                "bus_bandwidth": rate * factor,
                **parts,
                "bound": max(parts, key=lambda part: parts[part]),
            }
        )
    return rows


def bus_factor(op: str, ranks: int) -> float:
    """Return bus bandwidth against message over time (the convention of nccl-tests, PERFORMANCE.md).

    >>> bus_factor("all_reduce", 8)
    1.75
    """
    if op in ("broadcast", "send_recv"):
        return 1.0
    return (2.0 if op == "all_reduce" else 1.0) * (ranks - 1.0) / ranks


def _check(system: System, ranks: Sequence[int], sizes: Sequence[float], stride: int) -> None:
    problems = []
    node = system.gpus_per_node
    if stride < 1 or (stride < node and node % stride) or (stride > node and stride % node):
        near = f"Use a divisor or a multiple of the {node} GPUs of a node."
        problems.append(
            Problem(f"a stride of {stride} ranks does not divide a node of {system.name}", Place("--stride"), hint=near)
        )
        members = node
    else:
        members = max(node // stride, 1)
    problems += [problem for count in ranks if (problem := _bad_ranks(count, members, system.name))]
    for size in sizes:
        if not 0.0 < size <= LARGEST:
            printed = humanize(size, "B", 4, binary=False)
            problems.append(
                Problem(
                    f"expected more than 0 B and at most {humanize(LARGEST, 'B', binary=False)}; got {printed}",
                    Place("--sizes"),
                )
            )
    if problems:
        raise SpecError(problems)


def _bad_ranks(ranks: int, members: int, system: str) -> Problem | None:
    if not 1 <= ranks <= MOST_RANKS:
        return Problem(f"expected 1 to {MOST_RANKS:,} ranks; got {ranks}", Place("--ranks"))
    if ranks > members and ranks % members:
        below, above = ranks // members * members, -(-ranks // members) * members
        hint = f"{below} and {above} ranks do."
        return Problem(
            f"{ranks} ranks do not fill whole nodes of {system} ({members} members each)", Place("--ranks"), hint=hint
        )
    return None
