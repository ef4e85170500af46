"""State the work of ops that follow indices: random access has a bandwidth of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import AbstractOp, Kind
from roofsim.numeric import Real, minimum
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Embedding(AbstractOp):
    """Look rows up in a table (``[entries, width]``), `pooled` of them summed into each output row.

    Forward reads only the rows that the indices name; backward writes the whole dense gradient of the table, or, where
    updates are `sparse`, adds the gradients to the rows themselves at once (recommendation models: no gradient of the
    table's size, no optimizer step over it). `skew` says how rows repeat: their popularity falls with rank^-skew, 0: all are
    alike, None: nobody states it. `bags`: by kernels of recommendation models, with many rows on their way at once. `states`:
    columns of fp32 optimizer state per row that a sparse update reads and writes beside it; it is the last input of the update.
    """

    kind: ClassVar[Kind] = Kind.EMBEDDING

    lookups: Real
    width: Real
    sparse: bool = False
    bags: bool = False
    skew: Real | None = None
    states: Real = 0.0
    backward: bool = False

    def rows(self, table: Tensor) -> Real:
        """Bytes of the rows that the indices name, each counted once per lookup."""
        return minimum(self.lookups * self.width * table.dtype.itemsize, table.bytes)

    def state(self) -> Tensor | None:
        """Return the optimizer state beside the table that a sparse update reads and writes, where there is one."""
        return self.inputs[-1] if self.backward and self.sparse and len(self.outputs) > 1 else None

    def state_rows(self) -> Real:
        """Bytes of the optimizer state of the rows that the indices name."""
        state = self.state()
        return 0.0 if state is None else minimum(self.lookups * self.states * state.dtype.itemsize, state.bytes)

    def bytes_read(self) -> Real:
        if self.backward and not self.sparse:
            return AbstractOp.bytes_read(self)
        table, *others = self.inputs
        rows = self.rows(table) + self.state_rows()
        for tensor in others:
            if tensor is not self.state():
                rows = rows + tensor.bytes
        return rows

    def bytes_written(self) -> Real:
        if not (self.backward and self.sparse):
            return AbstractOp.bytes_written(self)
        return self.rows(self.inputs[0]) + self.state_rows()


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Gather(AbstractOp):
    """Collect or scatter rows by index: ``index``, ``index_add``, ``scatter``.

    `rows` says how many rows are named at random places of what is read (``index``) or added to (the others), each again and
    again; None: their order is not known, and they are priced as whole tensors that move once.
    """

    kind: ClassVar[Kind] = Kind.GATHER

    function: str = "index"
    rows: Real | None = None


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
