"""Score the shipped kernel constants, and fresh ones, on all measured kernels of aiconfigurator-core."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from roofsim.calibrate.kernels.constants import SECONDS
from roofsim.calibrate.kernels.fit import KernelFit, class_of, fit_kernels, lend, predict
from roofsim.calibrate.kernels.scores import GroupErrors, load_kernels
from roofsim.calibrate.kernels.table import SIZES, Group, KernelTable, card, engine_of, read_rows
from roofsim.records import dataclass, field
from roofsim.spec.reading.source import read_yaml
from roofsim.units import parse
from roofsim_evidence.external_kernels.reader import Chunk, Counts, data_folder, read_chunks
from roofsim_evidence.kernels.score import measured_file, without_card
from roofsim_evidence.places import constants

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from roofsim.calibrate.kernels.classes import KernelClass
    from roofsim.calibrate.kernels.least_squares import Constants
    from roofsim.numeric import Array

#: Rows of a group in one file that a fresh fit sees, evenly spread over the logarithm of size.
FITTED_ROWS: Final = 40
#: A group of products none of which is shorter was timed with the host that issues it: other engines take 2 to 6 us for the
#: smallest. Such groups are scored apart, and no fit sees them.
HOST_BOUND: Final = parse("40 us", "s")
PRODUCTS: Final = ("gemm", "bmm")
#: Names in a stored constant set that are not constants.
NAMES: Final = ("gpu", "architecture", "op", "arithmetic", "dtype", "engine", "rows", "error", "p90")

#: Whose constants predict a group: its own; on a card with measured kernels, another card's; on a card without any.
Basis = Literal["own", "lent", "new card"]


class Key(NamedTuple):
    """What errors are gathered by: whose constants, whether the host was timed, and the group."""

    basis: Basis
    host_bound: bool
    group: Group


@dataclass
class Tally:
    """Predicted over measured seconds of many rows.

    Attributes
    ----------
    ratios
        Key -> predicted / measured, a piece per file.
    ideal
        Key -> datasheet time / measured: what a plain roofline says of the same rows.
    seconds
        Key -> measured seconds of the same rows.
    donors
        Key -> cards that lent their constants.
    unscored
        Group without constants -> rows.
    fitted
        Key -> rows that the constants were fitted to, which are not among the ratios.
    """

    ratios: dict[Key, list[Array]] = field(default_factory=lambda: defaultdict(list))
    ideal: dict[Key, list[Array]] = field(default_factory=lambda: defaultdict(list))
    seconds: dict[Key, list[Array]] = field(default_factory=lambda: defaultdict(list))
    donors: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    unscored: Counter[Group] = field(default_factory=Counter)
    fitted: Counter[Key] = field(default_factory=Counter)


@dataclass(frozen=True)
class Examination:
    """Everything that a reading of the tables says.

    Attributes
    ----------
    counts
        Rows read and skipped.
    shipped
        Errors of the shipped constants, on rows that they were not fitted to.
    refit
        Errors of constants fitted to some rows of each group, on the others; None when no fit was asked for.
    fit
        Those constants.
    left_out
        Errors on each card with constants fitted to the shipped rows of the others; None when no fit was asked for.
    """

    counts: Counts
    shipped: Tally
    refit: Tally | None = None
    fit: KernelFit | None = None
    left_out: Tally | None = None


def shipped_fit() -> KernelFit:
    """Return the constants of hardware/constants/kernels.yaml as a fit; groups carry catalog names."""
    data: dict[str, list[dict[str, Any]]] = read_yaml(constants() / "kernels.yaml").data
    result = KernelFit({}, {}, {})
    for row in data["measured"]:
        group = Group(row["gpu"], row["op"], row["dtype"], row["engine"])
        result.own[group] = _constants(row)
        result.rows[group] = int(row["rows"])
    for row in data["families"]:
        family = tuple(row[name] for name in ("architecture", "op", "arithmetic", "engine") if name in row)
        result.shared[family] = _constants(row)
    return result


def _constants(row: dict[str, Any]) -> Constants:
    return {
        name: parse(value, "s") if name in SECONDS else float(value) for name, value in row.items() if name not in NAMES
    }


@cache
def shipped_table() -> KernelTable:
    """Return the shipped rows; groups carry catalog names."""
    table, _ = load_kernels(measured_file())
    groups = tuple(group._replace(gpu=card(group.gpu).name) for group in table.groups)
    return KernelTable(groups, table.group, table.sizes, table.other, table.seconds)


@cache
def shipped_cards() -> frozenset[str]:
    """Return the cards that have constants of their own."""
    return frozenset(group.gpu for group in shipped_fit().own)


@cache
def fit_without(gpu: str) -> KernelFit:
    """Return the constants that ship if a card had not been measured."""
    return without_card(shipped_table(), shipped_fit(), gpu)


@cache
def shipped_rows() -> dict[Group, frozenset[tuple[float, ...]]]:
    """Return the sizes and times of the shipped rows of this source, by group (catalog names)."""
    by_group: dict[Group, set[tuple[float, ...]]] = defaultdict(set)
    for row in read_rows(measured_file()):
        if row["source"].startswith("aiconfigurator:"):
            group = Group(card(row["gpu"]).name, row["op"], row["dtype"], engine_of(row["source"]))
            sizes = tuple(float(row[name] or fill) for name, fill in SIZES.items())
            by_group[group].add((*sizes, float(row["time_us"])))
    return {group: frozenset(rows) for group, rows in by_group.items()}


def not_shipped(table: KernelTable) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which rows are not among the shipped ones: same group, sizes, and time in nanoseconds."""
    fresh = np.ones(len(table), dtype=bool)
    times = np.round(table.seconds / parse("1 us", "s"), 3)
    known = shipped_rows()
    for i, group in enumerate(table.groups):
        rows = known.get(group, frozenset())
        mine = np.flatnonzero((table.group == i) & np.isin(times, [row[-1] for row in rows]))
        for j in mine:
            fresh[j] = (*(float(table.sizes[name][j]) for name in SIZES), float(times[j])) not in rows
    return fresh


def thinned(table: KernelTable, rows: int = FITTED_ROWS) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return up to `rows` rows of each group that may be fitted, evenly spread over the logarithm of size."""
    keep = np.zeros(len(table), dtype=bool)
    size = np.log(_ideal(table))
    for i in np.unique(table.group):
        if host_bound(table, i):
            continue
        mine = np.flatnonzero(table.group == i)
        order = mine[np.argsort(size[mine], kind="stable")]
        marks = np.linspace(size[order[0]], size[order[-1]], rows)
        places = np.minimum(np.searchsorted(size[order], marks), len(order) - 1)
        keep[order[places]] = True
    return keep


def host_bound(table: KernelTable, group: int) -> bool:
    """Whether the times of a group of products hold the host that issued them."""
    op = table.groups[group].op
    return op in PRODUCTS and float(table.seconds[table.group == group].min()) > HOST_BOUND


def _ideal(table: KernelTable) -> Array:
    """Return seconds at datasheet rates; all rows are of one operation."""
    return class_of(table.groups[0].op).work(table)


def merged(tables: Iterable[KernelTable]) -> KernelTable:
    """Return one table of many."""
    parts = list(tables)
    groups = tuple(sorted({group for part in parts for group in part.groups}))
    index = {group: i for i, group in enumerate(groups)}
    place = [np.array([index[group] for group in part.groups], dtype=np.int64)[part.group] for part in parts]
    return KernelTable(
        groups,
        np.concatenate(place),
        {name: np.concatenate([part.sizes[name] for part in parts]) for name in SIZES},
        tuple(row for part in parts for row in part.other),
        np.concatenate([part.seconds for part in parts]),
    )


def examine(folder: Path | None = None, *, refit: bool = False, rows: int = FITTED_ROWS) -> Examination:
    """Read all tables and score the shipped constants on them; with `refit`, fit fresh ones too and score those.

    Raises
    ------
    SpecError
        When there are no tables, or one cannot be read.
    """
    folder = data_folder(folder)
    counts, tally, fit = Counts(), Tally(), shipped_fit()
    picked: list[KernelTable] = []
    left_out = Tally()
    for chunk in read_chunks(folder, counts):
        fresh = not_shipped(chunk.table)
        _score(chunk, fresh, fit, tally)
        if refit and chunk.gpu in shipped_cards():
            _score(chunk, fresh, fit_without(chunk.gpu), left_out)
        if refit and (some := thinned(chunk.table, rows)).any():
            picked.append(chunk.table.select(some))
    if not picked:
        return Examination(counts, tally, left_out=left_out if refit else None)
    shared_fit = fit_kernels(merged(picked))
    again = Tally()
    for chunk in read_chunks(folder, Counts()):
        _score(chunk, ~thinned(chunk.table, rows), shared_fit, again)
    return Examination(counts, tally, again, shared_fit, left_out)


def scores(tally: Tally) -> list[GroupErrors]:
    """Return the errors of groups with constants of their own, as `write_fit` takes them."""
    return [
        GroupErrors(key.group, class_of(key.group.op).name, np.abs(np.concatenate(pieces) - 1.0))
        for key, pieces in tally.ratios.items()
        if key.basis == "own"
    ]


def _score(chunk: Chunk, keep: np.ndarray[Any, Any], fit: KernelFit, tally: Tally) -> None:
    """Add the errors on the kept rows of one file to a tally."""
    kernel = class_of(chunk.table.groups[0].op)
    measured = {group.gpu for group in fit.own}
    for i, group in enumerate(chunk.table.groups):
        mine = chunk.table.group == i
        part = chunk.table.select(mine & keep)
        basis: Basis = "own" if group in fit.own else "lent" if group.gpu in measured else "new card"
        key = Key(basis, host_bound(chunk.table, i), group)
        tally.fitted[key] += int(mine.sum()) - len(part)
        if not len(part):
            continue
        seconds = _predicted(part, group, kernel, fit, key, tally)
        if seconds is None:
            tally.unscored[group] += len(part)
            continue
        tally.ratios[key].append((seconds / part.seconds).astype(np.float32))
        tally.seconds[key].append(part.seconds.astype(np.float32))
        tally.ideal[key].append((_ideal(part) / part.seconds).astype(np.float32))


def _predicted(
    part: KernelTable, group: Group, kernel: KernelClass, fit: KernelFit, key: Key, tally: Tally
) -> Array | None:
    """Return seconds by a group's own constants, else the geometric mean over lenders, else None."""
    if group in fit.own:
        return predict(part, kernel, {group: fit.constants(kernel, group)})
    sets = lend(group, kernel, fit)
    if not sets:
        return None
    tally.donors[key] = _donors(group, fit, sets)
    return np.asarray(np.exp(np.mean([np.log(predict(part, kernel, {group: one})) for one in sets], axis=0)))


def _donors(group: Group, fit: KernelFit, sets: list[Constants]) -> tuple[str, ...]:
    """Return the cards whose floors are among the lent ones."""
    floors = {constants["floor"] for constants in sets}
    own = (other for other in fit.own if other.op == group.op and fit.own[other]["floor"] in floors)
    return tuple(sorted({other.gpu for other in own}))
