"""Read points as scenarios: those of a family together, each by itself where they do not agree, and why others cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.errors import RoofsimError
from roofsim.points import Diverged
from roofsim.records import dataclass, field
from roofsim.search.refusals import Refusals
from roofsim.search.resolving import NoneLeftError, RowsResolver, Shared, SharedResolver
from roofsim.search.stacking import PointBatch, alike, varying

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from roofsim.search.axes import AxisGrid
    from roofsim.search.families import Rows
    from roofsim.spec.reading.source import Document
    from roofsim.spec.reading.told_apart import Importer
    from roofsim.spec.resolve import Resolved

#: What code raises that is written for one number, and is given several.
NOT_FOR_ARRAYS: Final = (TypeError, ValueError, AttributeError, IndexError, KeyError)


@dataclass
class PieceReader:
    """Resolve the points of a space.

    Attributes
    ----------
    document
        The scenario without the axes.
    refusals
        The points that are not possible, and why.
    """

    document: Document
    space: AxisGrid
    importer: Importer | None
    shared: Shared = field(default_factory=Shared)
    refusals: Refusals = field(default_factory=Refusals)

    def read(self, rows: Rows) -> Iterator[PointBatch]:
        """Yield the points of a family that are possible, in pieces whose words and forms agree."""
        left = [rows.part(chosen) for chosen in (np.flatnonzero(rows.readable()), np.flatnonzero(~rows.readable()))]
        yield from self.alone(left.pop().places)
        while left:
            part = left.pop()
            if len(part) < 2:
                yield from self.alone(part.places)
                continue
            resolver = RowsResolver(part, self.importer, self.shared)
            try:
                resolved = resolver.run()
                whole = PointBatch(part.places, resolved, varying(resolved))
                piece = whole.part(np.flatnonzero(resolver.checks.open))
                yield from self.alone(piece.places) if piece.resolved is None else (piece,)
            except NoneLeftError:
                pass
            except Diverged as diverged:
                labels = diverged.labels
                if len(labels) == len(part) and (labels != labels[0]).any():
                    left += [part.part(chosen) for chosen in alike(labels)]
                else:
                    yield from self.alone(part.places)
                continue
            except (RoofsimError, *NOT_FOR_ARRAYS):  # each point says for itself what is wrong
                yield from self.alone(part.places)
                continue
            self.refusals.add_all(part.places, resolver.refused, resolver.document)

    def alone(self, places: NDArray[np.int64]) -> Iterator[PointBatch]:
        """Yield points one by one."""
        for place in places.tolist():
            resolved = self.one(place)
            if resolved is not None:
                yield PointBatch(np.array([place]), resolved)

    def one(self, place: int) -> Resolved | None:
        """Return the scenario of a point; None where it is refused."""
        try:
            return SharedResolver(self.space.document(self.document, place), self.importer, self.shared).run()
        except RoofsimError as error:
            self.refusals.add(place, error)
            return None
