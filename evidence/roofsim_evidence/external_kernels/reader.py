"""Read the measured kernels of an installed aiconfigurator-core (or of a folder like its data) as kernel tables.

The package (PyPI, Apache-2.0; github.com/ai-dynamo/aiconfigurator) carries Parquet tables that
``SYSTEM/FAMILY/ENGINE/VERSION/TABLE.parquet`` names. They are read where they lie: nothing of the package is imported.
"""

from __future__ import annotations

import importlib
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.calibrate.kernels.classes import compute_units, peak
from roofsim.calibrate.kernels.table import Group, KernelTable
from roofsim.errors import NoDataError, Place, Problem, SpecError
from roofsim.records import dataclass, field
from roofsim.spec import catalog
from roofsim.units import parse
from roofsim_evidence.external_kernels.meaning import (
    SYSTEMS,
    TABLES,
    Columns,
    TableMeaning,
    full_sizes,
    known_format,
    reason_left_out,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE: Final = "aiconfigurator_core"
DISTRIBUTION: Final = "aiconfigurator-core"
INSTALL: Final = "pip install 'roofsim-evidence[aiconfigurator]'"
#: Where tables may lie below a folder that the user names: the data, `systems`, the package, or a checkout.
INSIDE: Final = ("", "data", "systems/data", f"{PACKAGE}/systems/data", "src/aiconfigurator_core/systems/data")
PATTERN: Final = "*/*/*/*/*.parquet"
MILLISECOND: Final = parse("1 ms", "s")


@dataclass(frozen=True)
class Chunk:
    """The rows of one file that the kernel models cover.

    Attributes
    ----------
    path
        The file.
    name
        Its table.
    gpu
        Catalog name of the card.
    table
        The rows.
    """

    path: Path
    name: str
    gpu: str
    table: KernelTable


@dataclass
class Counts:
    """How many rows were read, and how many were not and why.

    Attributes
    ----------
    read
        (card, table) -> rows.
    skipped
        (table, reason) -> rows.
    """

    read: Counter[tuple[str, str]] = field(default_factory=Counter)
    skipped: Counter[tuple[str, str]] = field(default_factory=Counter)


def data_folder(path: Path | None = None) -> Path:
    """Return the folder with the tables: that of the installed package, or one at or below `path`.

    Raises
    ------
    SpecError
        When the package is not installed, or there are no tables.
    """
    if path is None:
        path = _installed()
    for inside in INSIDE:
        folder = path / inside
        if next(folder.glob(PATTERN), None) is not None:
            return folder
    what = "no such folder" if not path.is_dir() else "has no tables of measured kernels"
    hint = "Expected SYSTEM/FAMILY/ENGINE/VERSION/TABLE.parquet, as in aiconfigurator_core/systems/data."
    raise SpecError(Problem(what, Place(str(path)), "", hint))


def _installed() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        hint = f"Install it with: {INSTALL}, or name a folder with its tables."
        raise SpecError(Problem(f"{DISTRIBUTION} is not installed", hint=hint))
    return Path(spec.submodule_search_locations[0])


def installed_version() -> str:
    """Return the version of the installed package, or "unknown"."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"


def parquet() -> Any:
    """Return the module that reads Parquet; it is not always there.

    Raises
    ------
    SpecError
        When it is not installed.
    """
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise SpecError(
            Problem("reading Parquet needs pyarrow, which is not installed", hint=f"Install it with: {INSTALL}")
        ) from None


def read_chunks(folder: Path, counts: Counts) -> Iterator[Chunk]:
    """Read all tables of a folder, one file at a time, and count what was read and what was not.

    Raises
    ------
    SpecError
        When a file is not Parquet, or lacks a column.
    """
    known = set(catalog.names("gpu"))
    for path in sorted(folder.glob(PATTERN)):
        system, _, engine, _, _ = path.relative_to(folder).parts
        name, gpu = path.stem, SYSTEMS.get(system, system.replace("_", "-"))
        reason = "" if name in TABLES else reason_left_out(name)
        if not reason and gpu not in known:
            reason = f"no card {gpu} in hardware/gpus"
        if reason:
            counts.skipped[name, reason] += _row_count(path)
            continue
        table = _table(path, TABLES[name], gpu, engine, counts)
        counts.read[gpu, name] += len(table)
        if len(table):
            yield Chunk(path, name, gpu, table)


def _row_count(path: Path) -> int:
    reader = parquet()
    try:
        return int(reader.read_metadata(path).num_rows)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> SpecError:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    hint = "In a checkout of the repository, `git lfs pull` fetches the tables."
    return SpecError(Problem(f"cannot be read as Parquet: {first}", Place(str(path)), "", hint))


def _columns(path: Path, meaning: TableMeaning) -> Columns:
    """Return the columns of a file as arrays; numbers as floats, names as objects."""
    reader = parquet()
    wanted = (*meaning.columns, *meaning.optional, "latency")
    try:
        present = set(reader.read_schema(path).names)
        missing = [name for name in wanted if name not in present and name not in meaning.optional]
        if missing:
            hint = f"Expected {', '.join(sorted((*meaning.columns, 'latency')))}; found {', '.join(sorted(present))}."
            raise SpecError(Problem(f"lacks the column {', '.join(missing)}", Place(str(path)), "", hint))
        table = reader.read_table(path, columns=[name for name in wanted if name in present])
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    columns = {name: np.asarray(table.column(name).to_numpy()) for name in table.column_names}
    for name in meaning.optional:
        columns.setdefault(name, np.zeros(table.num_rows))
    return {
        name: column if column.dtype == object else np.asarray(column, dtype=float) for name, column in columns.items()
    }


def _table(path: Path, meaning: TableMeaning, gpu: str, engine: str, counts: Counts) -> KernelTable:
    """Return the rows of a file that can be used, and count the others."""
    columns = _columns(path, meaning)
    rows = len(columns["latency"])
    seconds = columns["latency"] * MILLISECOND
    sizes = full_sizes(meaning.sizes(columns), rows)
    formats = np.array(meaning.formats(columns), dtype=object)
    keep = np.isfinite(seconds) & (seconds > 0.0)
    counts.skipped[path.stem, "no time above 0"] += rows - int(keep.sum())
    whole = np.all([np.isfinite(size) & (size >= 1.0) for size in sizes.values()], axis=0)
    counts.skipped[path.stem, "a size below 1"] += int(np.sum(keep & ~whole))
    keep &= whole
    for name in sorted(set(formats[keep])):
        reason = _reason_format(Group(gpu, meaning.op, name, engine))
        if reason:
            mine = keep & (formats == name)
            counts.skipped[path.stem, reason] += int(mine.sum())
            keep &= ~mine
    groups = tuple(Group(gpu, meaning.op, name, engine) for name in sorted(set(formats[keep])))
    index = {group.dtype: i for i, group in enumerate(groups)}
    place = np.array([index.get(name, 0) for name in formats], dtype=np.int64)
    return KernelTable(groups, place, sizes, meaning.other(columns), seconds).select(keep)


def _reason_format(group: Group) -> str:
    """Return why a format cannot be used on a card, or nothing."""
    if not known_format(group.dtype):
        return f"no model of the format {group.dtype}"
    try:
        peak(group)
        compute_units(group)
    except NoDataError:
        return f"{group.gpu} has no peak for {group.dtype}"
    return ""
