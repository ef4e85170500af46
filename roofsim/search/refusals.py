"""Hold why points of a sweep are not possible: by which rule, and what it says of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from roofsim.errors import RoofsimError
    from roofsim.search.resolving import Refused
    from roofsim.spec.reading.source import Document


class Refusals:
    """The points of a sweep that are not possible: by which rule, and what it says of each."""

    def __init__(self) -> None:
        self._said: dict[int, tuple[str, str]] = {}
        self._coded: list[tuple[NDArray[np.int64], NDArray[np.int64], Sequence[str], Callable[[int], str]]] = []
        self._broken: list[tuple[NDArray[np.int64], Refused, Document]] = []

    def add(self, place: int, error: RoofsimError) -> None:
        """Note the error of one point."""
        self._said[place] = error.code, error.reason

    def add_all(self, places: NDArray[np.int64], refused: Sequence[Refused], document: Document) -> None:
        """Note the rules that points break; `places` are those of the points that were looked at."""
        self._broken += [(places, each, document) for each in refused]

    def add_coded(
        self, places: NDArray[np.int64], refused: NDArray[np.int64], codes: Sequence[str], says: Callable[[int], str]
    ) -> None:
        """Note which of some rules each of the points at some places breaks, -1 for none; `says` gives the reason of a place."""
        broken = np.flatnonzero(refused >= 0)
        if len(broken):
            self._coded.append((places[broken], refused[broken], codes, says))

    def codes(self, size: int) -> NDArray[np.object_]:
        """Return the code of each point's reason, of so many points; None where there is none."""
        codes = np.full(size, None, dtype=object)
        for places, refused, _ in self._broken:
            codes[places[refused.places]] = refused.rule.code
        for places, numbers, names, _ in self._coded:
            codes[places] = np.array(names, dtype=object)[numbers]
        for place, (code, _) in self._said.items():
            codes[place] = code
        return codes

    def possible(self, size: int) -> NDArray[np.bool_]:
        """Tell which of so many points have no reason."""
        possible = np.ones(size, dtype=bool)
        for places, refused, _ in self._broken:
            possible[places[refused.places]] = False
        for places, *_ in self._coded:
            possible[places] = False
        possible[list(self._said)] = False
        return possible

    def texts(self, size: int) -> NDArray[np.object_]:
        """Return the reason of each point, of so many points; None where there is none."""
        texts = np.full(size, None, dtype=object)
        for places, refused, document in self._broken:
            for place in refused.places.tolist():
                texts[places[place]] = refused.reason(place, document)
        for places, _, _, says in self._coded:
            for place in places.tolist():
                texts[place] = says(place)
        for place, (_, text) in self._said.items():
            texts[place] = text
        return texts

    def text(self, place: int) -> str | None:
        """Return the reason of one point; None where there is none."""
        if place in self._said:
            return self._said[place][1]
        for places, refused, document in self._broken:
            at = refused.places[places[refused.places] == place]
            if len(at):
                return refused.reason(int(at[0]), document)
        return next((says(place) for places, _, _, says in self._coded if (places == place).any()), None)

    def counted(self) -> dict[str, tuple[int, int]]:
        """Return by code how many points are not possible, and the first of them."""
        said = np.array(sorted(self._said), dtype=np.int64)
        by_code: dict[str, list[NDArray[np.int64]]] = {}
        for places, refused, _ in self._broken:
            at = places[refused.places]
            by_code.setdefault(refused.rule.code, []).append(at[~np.isin(at, said)])
        for place, (code, _) in sorted(self._said.items()):
            by_code.setdefault(code, []).append(np.array([place]))
        whole = {code: np.concatenate(parts) for code, parts in by_code.items()}
        return {code: (len(at), int(at.min())) for code, at in sorted(whole.items()) if len(at)}

    def each(self) -> Iterator[str]:
        """Yield the reason of each point that has one, in any order, written as it is asked for."""
        for _, text in self._said.values():
            yield text
        for places, refused, document in self._broken:
            for place in refused.places.tolist():
                if int(places[place]) not in self._said:
                    yield refused.reason(place, document)
        for places, _, _, says in self._coded:
            yield from map(says, places.tolist())
