"""Fit the constants of all kernel classes, predict with them, and lend them to cards without measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.calibrate.kernels.classes import (
    ITEMSIZES,
    KernelClass,
    arithmetic,
    attends,
    generation,
    held_energy,
    matrix_rate,
    power_cap,
    units_per_bandwidth,
)
from roofsim.calibrate.kernels.least_squares import TOLERANCE, Constants, FittedConstant, VectorLayout, fit
from roofsim.calibrate.kernels.shapes import CLASSES, HEAT
from roofsim.calibrate.kernels.table import Group, KernelTable, card
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.numeric import Array

Family = tuple[str, ...]

UNKNOWN_YEAR: Final = 2020
#: What counts as much as a doubling of matrix units when donors are sought (`evidence score kernels --transfer`:
#: two, three and four do alike; none makes L40S and RTX PRO 6000 twice as far off).
YEARS_A_DOUBLING: Final = 3.0
#: Highest carried speed of a cache against memory: that of the kernel classes.
MOST_SPEEDUP: Final = 10.0
#: The floor of a group is sought around this share of its shortest kernels (their 3rd percentile).
SHORTEST: Final = (3.0, 0.9)
#: Spread of the belief in a constant that the measured sizes cannot tell from others: it stays what is believed.
HELD: Final = 0.01


@dataclass(frozen=True)
class KernelFit:
    """Fitted constants.

    Attributes
    ----------
    own
        Group -> constants of its own.
    shared
        Family of kernels -> constants that its groups share.
    rows
        Group -> rows that were fitted.
    """

    own: dict[Group, Constants]
    shared: dict[Family, Constants]
    rows: dict[Group, int]

    def constants(self, kernel: KernelClass, group: Group) -> Constants:
        """Return every constant of a group that was measured."""
        return {**self.own[group], **self.shared[kernel.family(group)]}


def usable(table: KernelTable) -> KernelTable:
    """Return the rows that the kernel models cover: their operations and formats, forward, dense convolutions."""
    known = [any(g.op in kernel.ops for kernel in CLASSES) and _format_known(g) for g in table.groups]
    plain = [row.get("dir", "fwd") == "fwd" and row.get("groups", 1) == 1 for row in table.other]
    return table.select(np.array(known, dtype=bool)[table.group] & np.array(plain, dtype=bool))


def _format_known(group: Group) -> bool:
    name = group.dtype.removesuffix("_kvfp8") if attends(group.op) else group.dtype
    return name in ITEMSIZES


def class_of(op: str) -> KernelClass:
    """Return the class that an operation belongs to."""
    return next(kernel for kernel in CLASSES if op in kernel.ops)


def halves(table: KernelTable, work: Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which rows are fitted: within a group every other row in order of size. The rest is held out."""
    fitted = np.zeros(len(table), dtype=bool)
    for group in np.unique(table.group):
        rows = np.flatnonzero(table.group == group)
        order = rows[np.argsort(work[rows], kind="stable")]
        fitted[order[::2]] = True
    return fitted


def fit_kernels(table: KernelTable, classes: Iterable[KernelClass] = CLASSES) -> KernelFit:
    """Fit every class to all rows of a table."""
    result = KernelFit({}, {}, {})
    for kernel in classes:
        part = table.of(kernel.ops)
        families = [kernel.family(group) if group.op in kernel.ops else () for group in part.groups]
        for family in sorted({families[i] for i in np.unique(part.group)}):
            members = np.array([name == family for name in families])
            _fit_family(kernel, part.select(members[part.group]), family, result)
    return result


def _fit_family(kernel: KernelClass, table: KernelTable, family: Family, result: KernelFit) -> None:
    """Fit one family of kernels from several starts and keep the best."""
    present = [int(i) for i in np.unique(table.group)]
    layout, names = _layout(kernel, table, present)
    predict = kernel.bind(table)
    weight = np.ones(len(table))
    best: tuple[float, Array] | None = None
    for start in kernel.starts:
        point = np.log([start.get(p.name, p.expected) for p in layout.parameters])
        theta = fit(layout, point, predict, table.seconds, weight)
        misfit = _misfit(layout, theta, predict(layout.columns(theta)), table.seconds)
        if best is None or misfit < best[0]:
            best = misfit, theta
    assert best is not None
    for (name, group), value in zip(names, np.exp(best[1]), strict=True):
        where = result.shared.setdefault(family, {}) if group is None else result.own.setdefault(group, {})
        where[name] = float(value)
    for i in present:
        result.rows[table.groups[i]] = int(np.sum(table.group == i))


def _layout(
    kernel: KernelClass, table: KernelTable, present: list[int]
) -> tuple[VectorLayout, list[tuple[str, Group | None]]]:
    """Lay out one number a group for each constant of its own, then one for each shared constant."""
    parameters: list[FittedConstant] = []
    names: list[tuple[str, Group | None]] = []
    slots = {}
    for parameter in kernel.own:
        slot = np.zeros(len(table.groups), dtype=np.int64)
        for i in present:
            slot[i] = len(parameters)
            parameters.append(_expected_floor(parameter, table.seconds[table.group == i]))
            names.append((parameter.name, table.groups[i]))
        slots[parameter.name] = slot[table.group]
    untold = kernel.untold(table)
    for parameter in kernel.shared:
        slots[parameter.name] = np.full(len(table), len(parameters), dtype=np.int64)
        parameters.append(replace(parameter, spread=HELD) if parameter.name in untold else parameter)
        names.append((parameter.name, None))
    return VectorLayout(tuple(parameters), slots), names


def _expected_floor(parameter: FittedConstant, seconds: Array) -> FittedConstant:
    if parameter.name != "floor":
        return parameter
    percentile, share = SHORTEST
    return FittedConstant(
        "floor", float(np.percentile(seconds, percentile) * share), parameter.spread, parameter.low, parameter.high
    )


def _misfit(layout: VectorLayout, theta: Array, predicted: Array, seconds: Array) -> float:
    z = np.log(predicted / seconds) / TOLERANCE
    beliefs = sum(
        ((value - np.log(p.expected)) / p.spread) ** 2 for value, p in zip(theta, layout.parameters, strict=True)
    )
    return float(np.sum(np.sqrt(1.0 + z * z) - 1.0) + beliefs / 2.0)


def predict(table: KernelTable, kernel: KernelClass, constants: dict[Group, Constants]) -> Array:
    """Return the seconds that a class predicts for the rows of a table, with given constants of every group."""
    names = [parameter.name for parameter in (*kernel.own, *kernel.shared)]
    return kernel.bind(table)({name: _column(table, constants, name) for name in names})


def _column(table: KernelTable, constants: dict[Group, Constants], name: str) -> Array:
    return table.per_row(lambda group: constants[group][name])


def fitted_constants(table: KernelTable, kernel: KernelClass, fit: KernelFit) -> dict[Group, Constants]:
    """Return the constants of every group that occurs in a table."""
    return {table.groups[i]: fit.constants(kernel, table.groups[i]) for i in np.unique(table.group)}


def lend(group: Group, kernel: KernelClass, fit: KernelFit) -> list[Constants]:
    """Return the constants of the groups nearest to one that was not measured, each a full set.

    Donors are measured groups of the same operation on cards of the same vendor, whose runtime sets the launch cost (any
    vendor if there are none): of the same engine and format where there are any, of the same arithmetic otherwise; among
    those of the same architecture if one is measured, else of the cards least apart in kind and age (`_apart`). Compute
    shares are carried over as shares of what power sustains, the speed of caches with what compute units can ask of them.
    """
    donors = [other for other in fit.own if other.op == group.op and other.gpu != group.gpu]
    donors = [other for other in donors if card(other.gpu).vendor == card(group.gpu).vendor] or donors
    near = (
        [other for other in donors if (other.engine, other.dtype) == (group.engine, group.dtype)]
        or [other for other in donors if (other.engine, arithmetic(other)) == (group.engine, arithmetic(group))]
        or [other for other in donors if arithmetic(other) == arithmetic(group)]
    )
    lent = []
    matrix = any(parameter.name == "compute" for parameter in kernel.own)
    for donor in _nearest(group, near, YEARS_A_DOUBLING if matrix else 0.0):
        constants = dict(fit.constants(kernel, donor))
        if "compute" in constants:
            constants["compute"] *= (_sustained(group, kernel) / _sustained(donor, kernel)) ** kernel.sustained
        if "cache_speedup" in constants:
            constants["cache_speedup"] = _carried_speedup(constants["cache_speedup"], donor, group)
        lent.append(constants)
    return lent


def _sustained(group: Group, kernel: KernelClass) -> float:
    """Return the share of a peak that power sustains, where the model of the class does not hold long kernels to their power."""
    held = held_energy(group) > 0.0 and any(parameter.name == HEAT for parameter in kernel.shared)
    return 1.0 if held else power_cap(group)


def _nearest(group: Group, donors: list[Group], doubling: float) -> list[Group]:
    """Return the donors of the same architecture, else those no further apart than the nearest and a year."""
    if not donors:
        return []
    sisters = [donor for donor in donors if generation(donor) == generation(group)]
    if sisters:
        return sisters
    apart = [_apart(donor, group, doubling) for donor in donors]
    return [donor for donor, years in zip(donors, apart, strict=True) if years <= min(apart) + 1.0]


def _apart(one: Group, other: Group, doubling: float) -> float:
    """Return how far two cards are apart, in years: those between them, and some for every doubling of matrix units.

    Matrix units of workstation and consumer cards (512 to 1,024 FLOP per clock) run other kernels than data-centre ones (2,048 to
    8,192); their generations resemble each other more than cards of one year do.
    """
    doublings = abs(np.log2(matrix_rate(one) / matrix_rate(other)))
    return float(abs(_year(one) - _year(other)) + doubling * doublings)


def _carried_speedup(speedup: float, donor: Group, group: Group) -> float:
    """Return the speed of a cache against memory on another card: units ask it, at their clock, but it has limits too."""
    here, there = units_per_bandwidth(group), units_per_bandwidth(donor)
    carried = speedup if here is None or there is None else speedup * float(np.sqrt(here / there))
    return min(max(carried, 1.0), MOST_SPEEDUP)


def _year(group: Group) -> int:
    return card(group.gpu).year or UNKNOWN_YEAR


def predict_lent(table: KernelTable, kernel: KernelClass, fit: KernelFit) -> Array:
    """Return seconds from lent constants: the geometric mean over donors; NaN where nobody can lend."""
    total = np.full(len(table), np.nan)
    for i in np.unique(table.group):
        rows = table.group == i
        part = table.select(rows)
        sets = lend(table.groups[i], kernel, fit)
        if sets:
            logs = [np.log(predict(part, kernel, {table.groups[i]: constants})) for constants in sets]
            total[rows] = np.exp(np.mean(logs, axis=0))
    return total
