"""Cut a search into blocks, pure functions of what they are given, in rounds whose sizes depend on nothing but their number.

Layouts are left out of pricing when their bound exceeds a limit: the k-th best value known. Were that the best known to whoever
searches, counts would depend on who is first. So blocks are dealt out to rounds of 1, 1, 2, 4, 8 ... until 16 of them and a
sixteenth are done, and one with all others; the limit of a round is the k-th best of the rounds before it.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.errors import RoofsimError
from roofsim.kept import Kept
from roofsim.records import dataclass, field, fields, replace
from roofsim.search.planning.building import space_of
from roofsim.search.planning.findings import Findings
from roofsim.search.planning.objectives import Goal
from roofsim.search.planning.search import Limits, Searcher
from roofsim.search.resolving import Shared
from roofsim.search.sweep import figures_of
from roofsim.spec.prices import forced, in_force

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from roofsim.analyze.result import Result
    from roofsim.search.planning.asked import PlanRequest
    from roofsim.search.planning.space import PlanSpace
    from roofsim.spec.prices import Force
    from roofsim.spec.reading.source import Document
    from roofsim.spec.reading.told_apart import Importer
    from roofsim.spec.resolve import Resolved

#: Rows of a block at most, and pairs of family and row: few enough to bound memory.
MOST_ROWS: Final = 16_384
MOST_PAIRS: Final = 2**22
#: The rounds of growing size take so many blocks, and this share of all, at least.
_FIRST: Final = 16
_GROWING: Final = 1 / 16
#: Characters of the names of blocks and searches.
_NAME: Final = 24
#: Steps between families that follow each other, as a share of their number: the golden section, which evens them out.
_STRIDE: Final = (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True, kw_only=True)
class Tools:
    """What stands above a search: how a document is resolved and an evaluation answered, and who imports models."""

    resolve: Callable[[Document], Resolved]
    answer: Callable[..., Result]
    importer: Importer | None


@dataclass(frozen=True, kw_only=True)
class SearchInput:
    """What every block of a search is given; another process makes the same search of it.

    Attributes
    ----------
    document
        The scenario.
    asked
        What the caller asks; it names the GPUs.
    k
        Layouts that are looked for.
    cuts
        Whether layouts are left out of pricing that cannot be among them.
    prices
        Which prices are shown to whoever asks.
    """

    document: Document
    asked: PlanRequest
    tools: Tools
    k: int
    cuts: bool
    prices: Force = field(default_factory=in_force)

    def space(self) -> PlanSpace:
        """Return the layouts that are searched.

        Raises
        ------
        SpecError
            When the scenario is wrong, whatever its layout, or an axis is.
        """
        return space_of(self.document, self.asked.wish, self.tools.resolve)

    def searcher(self, space: PlanSpace) -> Searcher:
        """Return what searches the families of the space."""
        return Searcher(
            space=space, goal=self.goal, importer=self.tools.importer, shared=Shared(), k=self.k, cuts=self.cuts
        )

    @property
    def goal(self) -> Goal:
        """What makes a layout the best."""
        goal, answer = Goal(objective=self.asked.objective, constraints=self.asked.constraints), self.tools.answer
        return replace(goal, figures=lambda evaluation: figures_of(answer(evaluation))) if goal.wanted else goal


@dataclass(frozen=True)
class RowBlock:
    """Some rows of one class of families of a space, with the words of each of them."""

    family: int
    first: int
    last: int


@dataclass(frozen=True, kw_only=True)
class BlockTask:
    """A block to search, with the limits that layouts must not exceed.

    Attributes
    ----------
    search
        Name of the search (`search_name`).
    version
        Version of roofsim that the search is of.
    """

    given: SearchInput
    search: str
    block: RowBlock
    limits: Limits
    version: str

    @property
    def key(self) -> str:
        """What names the result: equal for equal tasks alone."""
        bests = sorted((name, float(value)) for name, value in self.limits.bests.items())
        return _named(
            self.search,
            self.block.family,
            self.block.first,
            self.block.last,
            repr(float(self.limits.most)),
            repr(bests),
        )


def search_name(given: SearchInput, space: PlanSpace) -> str:
    """Return the name of a search: equal where the same version of roofsim searches the same space for the same."""
    axes = json.dumps(space.described(), sort_keys=True, default=repr)
    base = json.dumps(space.document.data, sort_keys=True, default=repr)
    constraints = [one.written for one in given.asked.constraints]
    goal = given.asked.objective, *constraints, given.k, given.cuts
    return _named(version(), base, axes, space.batch, space.state, given.prices, *goal)


def version() -> str:
    """Return the version of roofsim; the package itself is above all its parts, which cannot import it."""
    return str(importlib.import_module(__name__.partition(".")[0]).__version__)


def _named(*parts: Any) -> str:
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:_NAME]


def blocks_of(given: SearchInput, space: PlanSpace) -> list[RowBlock]:
    """Return the blocks of a space in the order in which they are searched.

    Those with the least bounds come first: what they hold says what can be left out of the others. Where bounds say
    nothing, neighbors differ in as many words as possible.
    """
    searcher = _searcher(search_name(given, space), given, space)
    classes = searcher.classes()
    blocks = []
    for number in ordered(len(classes)):
        rows, families = classes[number].rows(), len(classes[number].families())
        most = min(MOST_ROWS, max(MOST_PAIRS // families, 1))
        for first in range(0, len(rows), most):
            block = RowBlock(number, first, min(first + most, len(rows)))
            blocks.append((searcher.least(classes[number], rows[first : block.last]), block))
    return [block for _, block in sorted(blocks, key=lambda one: one[0])]


def ordered(count: int) -> list[int]:
    """Return numbers below a count in strides that visit each once and are spread evenly from the beginning.

    >>> ordered(8)
    [0, 5, 2, 7, 4, 1, 6, 3]
    """
    stride = max(round(count * _STRIDE), 1)
    while math.gcd(stride, count) > 1:
        stride += 1
    return [at * stride % count for at in range(count)]


def rounds_of(blocks: Sequence[RowBlock]) -> Iterator[Sequence[RowBlock]]:
    """Yield the blocks in rounds: 1, 1, 2, 4 ... until a share of them is done, then all others.

    >>> [len(each) for each in rounds_of([RowBlock(family, 0, 1) for family in range(100)])]
    [1, 1, 2, 4, 8, 84]
    """
    done = 0
    while done < min(max(_GROWING * len(blocks), _FIRST), len(blocks)):
        size = max(done, 1)
        yield blocks[done : done + size]
        done += size
    if done < len(blocks):
        yield blocks[done:]


class WorkersDifferError(RoofsimError):
    """A worker runs another version of roofsim than who asks it."""


#: Searchers of the latest searches of this process.
_SEARCHERS: Final[Kept[Searcher]] = Kept(2)


def _searcher(search: str, given: SearchInput, space: PlanSpace | None = None) -> Searcher:
    """Return the searcher of a search; this process keeps the latest."""
    return _SEARCHERS.get(search, lambda: given.searcher(given.space() if space is None else space))


def search_block(task: BlockTask) -> tuple[str, Findings]:
    """Return the name of a task's result, and what the block holds: the same in any process, whatever it did before.

    Raises
    ------
    WorkersDifferError
        When this process runs another version of roofsim.
    """
    if task.version != version():
        said = f"a worker runs roofsim {version()}; the search is of {task.version}. Install the same version"
        raise WorkersDifferError(said)
    with forced(task.given.prices):
        searcher = _searcher(task.search, task.given)
        families = searcher.classes()[task.block.family]
        return task.key, searcher.search(families, task.limits, task.block.first, task.block.last)


# -- as plain data ------------------------------------------------------------------------------------------------------


def plain_findings(findings: Findings) -> dict[str, Any]:
    """Return findings as data for a JSON file; numbers are exact."""
    data = {one.name: getattr(findings, one.name) for one in fields(findings)}
    for name in ("top", "front"):
        data[name] = {key: column.tolist() for key, column in data[name].items()}
    return data


def findings_from(data: dict[str, Any]) -> Findings:
    """Return findings from data that `plain_findings` made."""
    columns = {
        name: {
            key: np.array(column, dtype=np.int64 if key == "id" else np.float64) for key, column in data[name].items()
        }
        for name in ("top", "front")
    }
    examples = {code: (int(place), str(text)) for code, (place, text) in data["examples"].items()}
    return Findings(**data | columns | {"examples": examples})
