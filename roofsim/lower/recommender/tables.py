"""Look rows up in embedding tables: a copy of all on each rank, or tables dealt out over ranks by table, row or column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.ops import Embedding
from roofsim.graph.tensor import INT8, INT64, Tensor
from roofsim.lower.blocks.exchange import emit
from roofsim.lower.shares import one
from roofsim.numeric import Real, ceil, divide, real
from roofsim.points import agreed
from roofsim.records import dataclass, replace
from roofsim.symbols import settled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.lower.blocks.layers import Layers
    from roofsim.lower.call import Call
    from roofsim.spec.model.recommendation import DlrmModel


def dealt_out(costs: Sequence[float], ranks: int) -> list[list[int]]:
    """Deal tables out over ranks, the most expensive first, each to the rank that has least; returns the tables of each rank.

    >>> dealt_out([5.0, 1.0, 3.0, 3.0], 2)
    [[0, 1], [2, 3]]
    """
    parts: list[list[int]] = [[] for _ in range(ranks)]
    loads = [0.0] * ranks
    for table in sorted(range(len(costs)), key=lambda at: (-costs[at], at)):
        rank = loads.index(min(loads))
        parts[rank].append(table)
        loads[rank] += costs[table]
    return parts


@dataclass(frozen=True)
class TablePart:
    """What a rank holds of a table, and asks of it for each of the samples of all ranks."""

    table: int
    rows: Real
    width: Real
    lookups: Real


@dataclass(frozen=True)
class Tables:
    """The tables of a model on one rank."""

    model: DlrmModel
    call: Call
    layers: Layers

    def look_up(self) -> list[Tensor]:
        """Return the pooled rows of a rank's samples: a vector of each table, or all of them in one ``[batch, tables x width]``."""
        ranks, kind = self.call.shares.tables, self.call.shares.table_sharding
        if kind == "copied" or one(ranks):
            return [self._one(part, self.call.batch) for part in self._all()]
        parts = {"table": self._whole_tables, "row": self._rows, "column": self._columns}[kind](ranks)
        indices = self._own_indices(kind, ranks, parts)
        samples = self.call.batch * ranks
        vectors = [self._one(part, samples, indices) for part in parts]
        pooled = vectors[0] if len(vectors) == 1 else self.layers.concat(tuple(vectors), 1)
        function = "reduce_scatter" if kind == "row" else "all_to_all"
        width = real(len(self.model.table_rows)) * self.model.embedding_dim
        out = self.layers.b.tensor("vectors", self.call.batch, width, dtype=pooled.dtype)
        return [emit(self.layers, function, "tables", ranks, pooled, out, leaf="vectors")]

    def _all(self) -> list[TablePart]:
        model = self.model
        return [
            TablePart(index, real(rows), model.embedding_dim, real(model.lookups(index)))
            for index, rows in enumerate(model.table_rows)
        ]

    def _whole_tables(self, ranks: Real) -> list[TablePart]:
        """Return the tables of the rank that reads the most, as full as the fullest rank: its largest table is so much longer."""
        every, count = self._all(), int(agreed(settled(ranks)))
        costs, sizes = (
            [float(agreed(settled(number))) for number in numbers]
            for numbers in ([part.lookups * part.width for part in every], [part.rows for part in every])
        )
        dealt = dealt_out(costs, count)
        busiest = max(dealt, key=lambda tables: sum(costs[table] for table in tables))
        gap = max(sum(sizes[table] for table in tables) for tables in dealt) - sum(sizes[table] for table in busiest)
        largest = max(busiest, key=lambda table: sizes[table])
        return [replace(every[table], rows=every[table].rows + (gap if table == largest else 0.0)) for table in busiest]

    def _rows(self, ranks: Real) -> list[TablePart]:
        """Return a block of rows of each table, rounded up; look-ups go to all rows alike."""
        return [
            TablePart(part.table, rows, part.width, part.lookups * divide(rows, part.rows))
            for part in self._all()
            for rows in (ceil(part.rows / ranks),)
        ]

    def _columns(self, ranks: Real) -> list[TablePart]:
        """Return some columns of each table, of which every look-up reads its part."""
        return [TablePart(part.table, part.rows, part.width / ranks, part.lookups) for part in self._all()]

    def _own_indices(self, kind: str, ranks: Real, parts: list[TablePart]) -> Tensor:
        """Exchange the indices of each rank's samples for those, of the samples of all ranks, that ask for the rank's parts."""
        b, batch = self.layers.b, self.call.batch
        asked, own = (sum((part.lookups for part in some), 0.0) for some in (self._all(), parts))
        with b.scope("indices"):
            mine = b.input(b.name("indices"), batch * asked, dtype=INT64)
            out = b.tensor("exchanged", batch * ranks * own, dtype=INT64)
            function = "all_gather" if kind == "column" else "all_to_all"
            return emit(self.layers, function, "tables", ranks, mine, out, leaf="indices")

    def _one(self, part: TablePart, samples: Real, exchanged: Tensor | None = None) -> Tensor:
        """Sum the rows of a table that each sample names (one, unless it has several values)."""
        model, b = self.model, self.layers.b
        lookups = samples * part.lookups
        narrow = {"dtype": INT8} if model.table_format == "int8" and not self.call.trains else {}
        with b.scope(f"table{part.table}"):
            table = b.parameter("weight", part.rows, part.width, trained=not model.sparse_updates, **narrow)
            if exchanged is None:
                indices = b.input(b.name("indices"), lookups, dtype=INT64)
            else:
                indices = self.layers.view(exchanged, "slice", lookups)
            offsets = b.input(b.name("offsets"), samples, dtype=INT64)
            out = b.tensor("out", samples, part.width)
            b.emit(
                Embedding,
                "lookup",
                inputs=(table, indices, offsets),
                outputs=(out,),
                lookups=lookups,
                width=part.width,
                sparse=model.sparse_updates,
                bags=True,
                skew=None if model.table_skew is None else real(model.table_skew),
                states=self._states(part),
            )
            return out

    def _states(self, part: TablePart) -> Real:
        """Return the columns of optimizer state per row: of row-wise Adagrad one, of Adagrad one for each of the row's."""
        columns = {"sgd": 0.0, "rowwise-adagrad": 1.0, "adagrad": part.width}
        return columns[self.model.table_optimizer] if self.call.trains else 0.0
