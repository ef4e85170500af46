"""Read measured collectives, and price them."""

from __future__ import annotations

import csv
import gzip
import io
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from roofsim.cost.links.collectives import collective_time, fabric_of
from roofsim.records import dataclass, replace
from roofsim.spec import catalog
from roofsim.spec.hardware.schema import Gpu, System
from roofsim.spec.reading.validate import validate
from roofsim.units import parse
from roofsim_evidence.places import measurements

if TYPE_CHECKING:
    from roofsim.cost.links.collectives import Fabric
    from roofsim.numeric import Array
    from roofsim.spec.constants.links import Links

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

MICROSECOND: Final = parse("1 us", "s")
#: Below this size a clock on the host sees itself: neighbouring sizes of these tables jump between 10 and 60 us.
HOST_CLOCK: Final = parse("4 MiB", "B")
#: Collective libraries; others are engines with kernels of their own.
LIBRARIES: Final = ("nccl", "nccl-8bit", "rccl", "oneccl")
#: One row of so many is fitted: sizes of one sweep lie close, and say the same. What is scored leaves whole things out.
FITTED: Final = 3


class CollectiveCall(NamedTuple):
    """Rows that one call prices: a system, its network where it is another than the file says, operation and library."""

    system: str
    network: str
    op: str
    library: str


@dataclass(frozen=True)
class Collectives:
    """Measured collectives in columns.

    Attributes
    ----------
    case
        Each row's index into `cases`.
    parts
        What each row is scored with.
    publishers
        Who published each row, whatever the version of what was measured.
    per_node
        Ranks of the group on one node.
    by_host
        Clocked on the host.
    unfit, fitted
        Rows that no fit may use, and those that it may.
    """

    cases: tuple[CollectiveCall, ...]
    case: np.ndarray[Any, np.dtype[np.int64]]
    parts: np.ndarray[Any, np.dtype[np.str_]]
    publishers: np.ndarray[Any, np.dtype[np.str_]]
    ranks: Array
    per_node: Array
    size: Array
    seconds: Array
    by_host: Mask
    unfit: Mask
    fitted: Mask

    def __len__(self) -> int:
        return len(self.seconds)

    def only(self, rows: Mask) -> Collectives:
        """Return some of the rows."""
        return replace(
            self,
            case=self.case[rows],
            parts=self.parts[rows],
            publishers=self.publishers[rows],
            ranks=self.ranks[rows],
            per_node=self.per_node[rows],
            size=self.size[rows],
            seconds=self.seconds[rows],
            by_host=self.by_host[rows],
            unfit=self.unfit[rows],
            fitted=self.fitted[rows],
        )

    def names(self, kind: str) -> np.ndarray[Any, np.dtype[np.str_]]:
        """Return what each row belongs to: its ``source`` (publisher), its ``card`` or its ``machine`` (system)."""
        if kind == "source":
            return self.publishers
        cards = {case.system: _hardware(case.system)[1].name for case in self.cases}
        own = [case.system if kind == "machine" else cards[case.system] for case in self.cases]
        named: np.ndarray[Any, np.dtype[np.str_]] = np.asarray(own)[self.case]
        return named

    def of(self, **wanted: str) -> Mask:
        """Mark the rows of cases with the given fields."""
        good = [all(getattr(case, name) == value for name, value in wanted.items()) for case in self.cases]
        marked: Mask = np.asarray(good, dtype=np.bool_)[self.case]
        return marked


@cache
def measured() -> Collectives:
    """Return the measurements that ship, in the order in which every third is fitted."""
    path = measurements() / "collectives.csv.gz"
    rows = list(csv.DictReader(io.StringIO(gzip.decompress(path.read_bytes()).decode("utf-8"))))
    keys = [CollectiveCall(row["system"], row["network"], row["op"], row["library"]) for row in rows]
    cases = tuple(dict.fromkeys(keys))
    place = {case: index for index, case in enumerate(cases)}

    def column(name: str) -> Array:
        return np.array([float(row[name]) for row in rows])

    parts = np.array([_part(row) for row in rows])
    scored_only = np.char.startswith(parts, "log ") | np.char.endswith(parts, "host clock")
    return Collectives(
        cases=cases,
        case=np.array([place[key] for key in keys]),
        parts=parts,
        publishers=np.array([row["source"].partition(":")[0] for row in rows]),
        ranks=column("ranks"),
        per_node=column("per_node"),
        size=column("bytes"),
        seconds=column("time_us") * MICROSECOND,
        by_host=np.array([row["clock"] == "host" for row in rows]),
        unfit=scored_only,
        fitted=(np.arange(len(rows)) % FITTED == 0) & ~scored_only,
    )


def _part(row: dict[str, str]) -> str:
    """Say with what a row is scored: its system, whether over a network, engines' own kernels, published logs."""
    words = ["log"] if row["source"].startswith("log:") else []
    words.append(row["system"])
    if int(row["per_node"]) < int(row["ranks"]):
        words.append(row["network"] or "network")
    if row["library"] not in LIBRARIES:
        words.append("own kernels")
    if row["clock"] == "host":
        words.append("(vidur)")
        if row["op"] == "all_reduce" and float(row["bytes"]) < HOST_CLOCK:
            words.append("host clock")
    return " ".join(words)


@cache
def _hardware(name: str) -> tuple[System, Gpu]:
    system = validate(System, catalog.load("system", name))
    return system, validate(Gpu, catalog.load("gpu", system.gpu or "generic"))


def fabric(case: CollectiveCall, links: Links) -> Fabric:
    """Return the fabric of a case under some constants."""
    system, gpu = _hardware(case.system)
    if case.network:
        system = system.model_copy(update={"network": case.network})
    return fabric_of(system, gpu, gpu.architecture, links)


def predict(table: Collectives, links: Links) -> Array:
    """Return the predicted seconds of every row."""
    seconds = np.empty(len(table))
    fabrics: dict[tuple[str, str], Fabric] = {}
    for index, case in enumerate(table.cases):
        rows = table.case == index
        if not rows.any():
            continue
        key = (case.system, case.network)
        if key not in fabrics:
            fabrics[key] = fabric(case, links)
        own_fabric = fabrics[key]
        # Ranks of one node are neighbours; over several nodes, as many on each as were measured.
        apart = own_fabric.gpus_per_node / table.per_node[rows]
        stride = np.where(table.ranks[rows] <= table.per_node[rows], 1.0, apart)
        time = collective_time(
            case.op,
            table.size[rows],
            table.ranks[rows],
            stride,
            own_fabric,
            groups=1.0,
            custom=None if case.library in LIBRARIES else case.library,
            in_switch=case.library != "nccl-8bit",
        )
        seconds[rows] = time.seconds
    return seconds
