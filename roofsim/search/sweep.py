"""Answer a sweep: resolve its points, group them by structure, and evaluate each group as arrays."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.printed import flattened
from roofsim.errors import Problem, RoofsimError, SpecError, did_you_mean
from roofsim.evaluate import evaluate
from roofsim.points import Diverged
from roofsim.records import dataclass, field
from roofsim.search.axes import Space, read_axes
from roofsim.search.resolving import Shared, SharedResolver
from roofsim.search.stacking import Structure, stacked, structure_of
from roofsim.search.table import Columns, Evaluated, SweepTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from roofsim.analyze.result import Result
    from roofsim.evaluate import Evaluation
    from roofsim.spec.reading.source import Document
    from roofsim.spec.reading.told_apart import Importer
    from roofsim.spec.resolve import Resolved

#: Points that are evaluated as one array: enough to share the work of a program, few enough to stay in the processor's cache.
MOST_TOGETHER: Final = 512
#: Whether groups are evaluated as arrays.
TOGETHER = True
#: Parts of a result that say what was run, not how it runs.
_NOT_FIGURES: Final = ("schema", "scenario", "warnings", "provenance")
#: Parts that ask for the step on other hardware.
_LIMITS: Final = ("bound", "bandwidth_bound", "runner_up", "elasticity", "networks")
#: What code raises that is written for one number, and is given several.
_NOT_FOR_ARRAYS: Final = (TypeError, ValueError, AttributeError, IndexError, KeyError)


def sweep_document(
    document: Document,
    axes: Mapping[str, Iterable[Any]],
    answer: Callable[..., Result],
    importer: Importer | None = None,
    *,
    figures: Sequence[str] | None = None,
    progress: Callable[[Sequence[int]], Iterable[int]] = iter,
) -> SweepTable:
    """Answer every combination of the values of some axes; see `roofsim.sweep`.

    Raises
    ------
    SpecError
        When an axis is wrong, or a figure unknown. A point that is not possible is not an error: it is not feasible, and says why.
    """
    wanted = None if figures is None else tuple(figures)
    limits = wanted is None or any(key.partition(".")[0] in _LIMITS for key in wanted)
    sweep = _Sweep(document, read_axes(axes), partial(answer, limits=limits), importer, wanted)
    for place in progress(range(sweep.space.size)):
        sweep.add(place)
    sweep.evaluate()
    return sweep.table()


@dataclass
class _Sweep:
    document: Document
    space: Space
    answer: Callable[[Evaluation], Result]
    importer: Importer | None
    wanted: tuple[str, ...] | None
    shared: Shared = field(default_factory=Shared)
    forms: dict[int, Any] = field(default_factory=dict)
    groups: dict[Structure, list[tuple[int, Resolved]]] = field(default_factory=dict)
    reasons: dict[int, tuple[str, str]] = field(default_factory=dict)
    together: int = 0
    alone: int = 0
    structures: int = 0

    def __post_init__(self) -> None:
        self.columns = Columns(self.space)

    def add(self, place: int) -> None:
        """Resolve a point and put it beside those of its structure."""
        try:
            resolved = SharedResolver(self.space.document(self.document, place), self.importer, self.shared).run()
        except RoofsimError as error:
            self.reasons[place] = error.reason, error.code
            return
        self.groups.setdefault(structure_of(resolved, self.forms), []).append((place, resolved))

    def evaluate(self) -> None:
        """Evaluate all groups, and parts of a group apart where their numbers decide on another program."""
        left = deque(
            members[first : first + MOST_TOGETHER]
            for members in self.groups.values()
            for first in range(0, len(members), MOST_TOGETHER)
        )
        while left:
            members = left.popleft()
            left.extendleft(reversed(self._group(members)))

    def _group(self, members: list[tuple[int, Resolved]]) -> list[list[tuple[int, Resolved]]]:
        """Evaluate a group, or return the parts that it falls into."""
        if len(members) == 1 or not TOGETHER:
            for member in members:
                self._alone(*member)
            return []
        try:
            result = self.answer(evaluate(stacked([resolved for _, resolved in members])))
        except Diverged as parted:
            parts = _parts(members, parted.labels)
            if len(parts) > 1:
                return parts
        except (RoofsimError, *_NOT_FOR_ARRAYS):  # each point says for itself what is wrong
            pass
        else:
            self._put(np.array([place for place, _ in members]), result)
            self.together += len(members)
            self.structures += 1
            return []
        for member in members:
            self._alone(*member)
        return []

    def _alone(self, place: int, resolved: Resolved) -> None:
        try:
            result = self.answer(evaluate(resolved))
        except RoofsimError as error:
            self.reasons[place] = error.reason, error.code
            return
        self._put(place, result)
        self.alone += 1

    def _put(self, places: Any, result: Result) -> None:
        """Keep the wanted figures of some points."""
        figures, wanted = figures_of(result), self.wanted
        if wanted is not None:
            unknown = next((key for key in wanted if not any(_is_of(name, key) for name in figures)), None)
            if unknown is not None:
                raise SpecError(
                    Problem(f"no figure {unknown!r} in a result", path="figures", hint=did_you_mean(unknown, figures))
                )
            figures = {name: value for name, value in figures.items() if any(_is_of(name, key) for key in wanted)}
        self.columns.put(places, figures)

    def table(self) -> SweepTable:
        """Return what was found."""
        reason, code = (np.full(self.space.size, None, dtype=object) for _ in range(2))
        for place, said in self.reasons.items():
            reason[place], code[place] = said
        return SweepTable(
            axes={axis.given: list(axis.values) for axis in self.space.axes},
            rows=self.columns.arrays(),
            feasible=np.array([text is None for text in reason], dtype=bool).reshape(self.space.shape),
            reason=reason.reshape(self.space.shape),
            reason_code=code.reshape(self.space.shape),
            evaluated=Evaluated(self.together, self.alone, len(self.reasons), self.structures),
        )


def _is_of(name: str, key: str) -> bool:
    """Tell whether a figure is the one, or of the section, that a key names."""
    return name == key or name.startswith(f"{key}.")


def _parts(members: list[tuple[int, Resolved]], labels: Any) -> list[list[tuple[int, Resolved]]]:
    if len(labels) != len(members):
        return [members]
    groups: dict[int, list[tuple[int, Resolved]]] = {}
    for label, member in zip(labels.tolist(), members, strict=True):
        groups.setdefault(label, []).append(member)
    return list(groups.values())


def figures_of(result: Result) -> dict[str, Any]:
    """Return the figures of a result by dotted key: numbers, texts, pairs of numbers; arrays where the result has arrays."""
    document = {key: value for key, value in result.figures().items() if key not in _NOT_FIGURES}
    networks = document.pop("networks", ())
    document |= {"networks": {network["name"]: network for network in networks}} if networks else {}
    return flattened(document)
