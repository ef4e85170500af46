"""Say what measured products reach at full clock, and what a FLOP takes where the power limit holds them back."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.calibrate.kernels.classes import architecture_of, arithmetic, generation, on_matrix_units, peak, watts
from roofsim.calibrate.kernels.shapes import gemm_shape, product_flops
from roofsim.calibrate.kernels.table import card
from roofsim.output import save_text
from roofsim.spec import catalog
from roofsim.spec.constants.physics import shipped_physics
from roofsim.units import humanize, parse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from roofsim.calibrate.kernels.table import Group, KernelTable

#: Seconds at the dense peak from which a product is long: launches are nothing, and the power controller has settled.
LONG: Final = parse("1 ms", "s")
#: Long products from which a library on a card counts, and the quantile of their shares of the peak that stands for its best.
ENOUGH: Final = 5
BEST: Final = 0.9
#: Arithmetic as the files of architectures name it.
NAMES: Final = {"16-bit": "16-bit", "fp8": "8-bit"}
DIGITS: Final = 3
#: Seconds from which a product settles at the clock that its power allows, whatever the controller's window; how many such count,
#: and the share of the peak from which power does not hold products.
SETTLED: Final = parse("10 ms", "s")
ENOUGH_SETTLED: Final = 3
UNHELD: Final = 0.9
#: Operations that were measured in an engine with constant weights, which draw less power: 5 to 12 % fast when large.
APART: Final = (("gemm", "vllm"),)


def long_products(table: KernelTable) -> Iterator[tuple[Group, float]]:
    """Yield groups of long matrix products with the share of the dense peak that the best of them reach."""
    for place in np.unique(table.group):
        group = table.groups[place]
        if group.op != "gemm" or arithmetic(group) not in NAMES or not on_matrix_units(group):
            continue
        rows = table.select(table.group == place)
        ideal = 2.0 * rows.sizes["m"] * rows.sizes["n"] * rows.sizes["k"] * rows.sizes["batch"] / peak(group)
        long = ideal >= LONG
        if np.count_nonzero(long) >= ENOUGH:
            yield group, float(np.quantile(ideal[long] / rows.seconds[long], BEST))


def best_product(table: KernelTable) -> float:
    """Return the share of the dense peak at full clock that the best 16-bit products reach on any card.

    Where power holds products back it does not show: the largest share over cards and libraries is what power leaves alone.
    """
    return round(max(share for group, share in long_products(table) if arithmetic(group) == "16-bit"), DIGITS)


def matrix_energies(table: KernelTable) -> dict[str, dict[str, float]]:
    """Return the joules of a FLOP at full clock by architecture and arithmetic, from the rates that power sustains.

    A board at its limit holds the clock at which products draw what it may: of ``full``, at full clock, it sustains
    ``full (limit / power)^(1 / clock_power)`` with ``power = full peak energy``. `full` is `best_product` at the clock that parts
    hold where power allows, and the rate that of the library that sustains most, of those that were measured with random
    operands. Where products are not held back, this says only what they draw at most: of several cards the least counts.
    """
    reached, exponent = best_product(table), shipped_physics()["clock_power"]
    best: dict[tuple[str, str, str], tuple[float, float]] = {}
    for group, share in long_products(table):
        gpu = card(group.gpu)
        if gpu.tdp is None or (group.op, group.engine) in APART:
            continue
        full = reached * architecture_of(group).clock_headroom
        energy = max(full / share, 1.0) ** exponent * gpu.tdp / (full * peak(group))
        key = generation(group), NAMES[arithmetic(group)], gpu.name
        best[key] = max(best.get(key, (0.0, 0.0)), (share, energy))
    energies: dict[str, dict[str, float]] = {}
    for (architecture, name, _), (_, energy) in sorted(best.items()):
        each = energies.setdefault(architecture, {})
        each[name] = min(each.get(name, energy), energy)
    return energies


def narrow_product_energies(table: KernelTable) -> dict[str, dict[str, float]]:
    """Return the joules of a FLOP of long products in 8 bits, at the clock that they can hold, by architecture and width.

    A board at its limit draws what it may: its watts over the rate that products of `SETTLED` seconds and more keep. Of the
    libraries on a card the one that draws least counts, which wastes least beside the arithmetic; of cards the median, without
    those that come near their peak, which power does not hold. Asked of architectures that state `product_energy`.
    """
    by_card: dict[tuple[str, str], dict[str, float]] = {}
    for place in np.unique(table.group):
        group = table.groups[place]
        if not _holds(group) or NAMES[arithmetic(group)] == "16-bit":
            continue
        rows = table.select((table.group == place) & (table.seconds >= SETTLED))
        if len(rows) < ENOUGH_SETTLED:
            continue
        rate = float(np.median(product_flops(gemm_shape(rows)) / rows.seconds))
        if rate < UNHELD * peak(group):
            least = by_card.setdefault((generation(group), NAMES[arithmetic(group)]), {})
            least[group.gpu] = min(least.get(group.gpu, math.inf), watts(group) / rate)
    energies: dict[str, dict[str, float]] = {}
    for (architecture, name), each in sorted(by_card.items()):
        energies.setdefault(architecture, {})[name] = float(np.median(list(each.values())))
    return energies


def _holds(group: Group) -> bool:
    """Return whether long products of a group say what power leaves of them."""
    known = group.op == "gemm" and arithmetic(group) in NAMES and (group.op, group.engine) not in APART
    return known and math.isfinite(watts(group)) and architecture_of(group).product_energy is not None


def held_back(table: KernelTable) -> dict[str, dict[str, float]]:
    """Return `matrix_energies` of the architectures that state an energy of their own: units that are fed from registers."""
    stated = {generation(group): architecture_of(group).matrix_energy for group in table.groups}
    return {name: each for name, each in matrix_energies(table).items() if stated.get(name)}


def architecture_file(name: str) -> Path:
    """Return the file of an architecture."""
    return catalog.root() / "hardware" / "architectures" / f"{name}.yaml"


def energies_text(each: dict[str, float], name: str = "matrix_energy") -> str:
    """Return the line of an architecture's file.

    >>> energies_text({"16-bit": 2.6e-12})
    'matrix_energy: {16-bit: 2.6 pJ}'
    """
    values = ", ".join(f"{width}: {humanize(value, 'J', DIGITS)}" for width, value in each.items())
    return f"{name}: {{{values}}}"


def write_energies(table: KernelTable) -> None:
    """Put the energies into the files of architectures that state some."""
    for name, energies in (
        ("matrix_energy", held_back(table)),
        ("narrow_product_energy", narrow_product_energies(table)),
    ):
        for architecture, each in energies.items():
            path = architecture_file(architecture)
            text, line = path.read_text(encoding="utf-8"), energies_text(each, name)
            save_text(path, re.sub(rf"^{name}: .*$", line, text, count=1, flags=re.MULTILINE))
