"""State the work of ops that follow indices: random access has a bandwidth of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofsim.graph.base import AbstractOp, Kind
from roofsim.numeric import Real, minimum


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Embedding(AbstractOp):
    """Look rows up in a table (``[entries, width]``), `pooled` of them summed into each output row.

    Forward reads only the rows that the indices name; backward writes the whole dense gradient of the table.
    """

    kind: ClassVar[Kind] = Kind.EMBEDDING

    lookups: Real
    width: Real
    backward: bool = False

    def bytes_read(self) -> Real:
        if self.backward:
            return AbstractOp.bytes_read(self)
        table, *others = self.inputs
        rows = minimum(self.lookups * self.width * table.dtype.itemsize, table.bytes)
        for tensor in others:
            rows = rows + tensor.bytes
        return rows


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Gather(AbstractOp):
    """Collect or scatter rows by index: ``index``, ``index_add``, ``scatter``."""

    kind: ClassVar[Kind] = Kind.GATHER

    function: str = "index"


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Sort(AbstractOp):
    """Order elements: ``sort``, ``topk``, ``histogram``, ``cumsum``. Small, but each is several launches."""

    kind: ClassVar[Kind] = Kind.SORT

    function: str = "sort"

    def kernels(self) -> Real:
        return {"sort": 4.0, "topk": 2.0}.get(self.function, 1.0)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class CacheAppend(AbstractOp):
    """Put new keys or values behind those in the cache: in place, or (`concatenates`) by writing the cache anew."""

    kind: ClassVar[Kind] = Kind.COPY

    concatenates: bool = False

    def bytes_read(self) -> Real:
        return AbstractOp.bytes_read(self) if self.concatenates else self.inputs[0].bytes

    def bytes_written(self) -> Real:
        return self.outputs[0].bytes if self.concatenates else self.inputs[0].bytes
