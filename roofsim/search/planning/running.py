"""Run the blocks of a search, round by round, and merge what they hold: in one go, resumed, or one part of several."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from roofsim.errors import Place, Problem, SpecError
from roofsim.records import dataclass, field
from roofsim.search.planning import best
from roofsim.search.planning.blocks import BlockTask, blocks_of, rounds_of, search_name, version
from roofsim.search.planning.classes import layouts_of
from roofsim.search.planning.findings import Findings
from roofsim.search.planning.search import Limits
from roofsim.search.planning.store import BlockStore, read_all
from roofsim.search.planning.workers import workers_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from roofsim.search.planning.blocks import RowBlock, SearchInput
    from roofsim.search.planning.space import PlanSpace
    from roofsim.search.planning.workers import BlockWorkers

_SHARE: Final = re.compile(r"\s*(\d+)\s*/\s*(\d+)\s*")


@dataclass(frozen=True)
class Progress:
    """How far a search is.

    Attributes
    ----------
    done, of
        Layouts that were decided, and all.
    least
        The least of the objective that is known; infinity: none.
    """

    done: int
    of: int
    least: float


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Who searches, and what is kept of it.

    Attributes
    ----------
    jobs
        Processes of this machine.
    scheduler
        Address of a Dask scheduler, in place of them.
    folder
        Where results of blocks are kept, and found again.
    share
        The part ``i`` of ``n`` to search, from 1; None: all.
    merge
        Files and folders with the results of all parts; nothing is searched.
    watch
        Is told how far the search is.
    """

    jobs: int = 1
    scheduler: str | None = None
    folder: Path | None = None
    share: tuple[int, int] | None = None
    merge: tuple[Path, ...] = ()
    watch: Callable[[Progress], None] = field(default=lambda _: None)


def read_share(text: str) -> tuple[int, int]:
    """Return which part of how many ``3/10`` is.

    Raises
    ------
    SpecError
        When it is none.
    """
    matched = _SHARE.fullmatch(text)
    part, parts = (int(matched[1]), int(matched[2])) if matched else (0, 0)
    if not 1 <= part <= parts:
        hint = "For example 3/10: the third of ten parts."
        raise SpecError(Problem(f"expected I/N with I from 1 to N; got {text[:40]!r}", Place("--block"), hint=hint))
    return part, parts


def run_blocks(given: SearchInput, space: PlanSpace, spread: Spread) -> Findings:
    """Return what the blocks of a space hold, or those of a part of it.

    Raises
    ------
    SpecError
        When results that are to be merged are missing, damaged or of another search.
    """
    blocks, search = blocks_of(given, space), search_name(given, space)
    if spread.merge:
        return _merged(given, blocks, search, read_all(spread.merge, search))
    store = BlockStore(spread.folder, search)
    with workers_for(spread.jobs, spread.scheduler) as workers:
        run = _BlockRun(given, search, store, workers, spread.watch, layouts_of(space))
        rounds = list(rounds_of(blocks))
        for place, each in enumerate(rounds):
            part = spread.share if place == len(rounds) - 1 else None
            run.round(each if part is None else each[part[0] - 1 :: part[1]])
    return run.findings


class _BlockRun:
    """A search under way."""

    def __init__(
        self,
        given: SearchInput,
        search: str,
        store: BlockStore,
        workers: BlockWorkers,
        watch: Callable[[Progress], None],
        layouts: int,
    ) -> None:
        self.given, self.search, self.store, self.workers = given, search, store, workers
        self.watch, self.layouts = watch, layouts
        self.findings = Findings()

    def round(self, blocks: Sequence[RowBlock]) -> None:
        """Search some blocks, all with the same limit, and merge what each holds as it comes: their order does not matter."""
        tasks, done = _tasks(self.given, self.search, blocks, self.findings), set[str]()
        for task in tasks:
            if (kept := self.store.get(task.key)) is not None:
                done.add(task.key)
                self._merge(kept)
        self._tell()
        for name, findings in self.workers.results([task for task in tasks if task.key not in done]):
            if name in done:  # a worker that was thought dead
                continue
            done.add(name)
            self.store.put(name, findings)
            self._merge(findings)
            self._tell()

    def _merge(self, findings: Findings) -> None:
        self.findings = self.findings.merged(findings, self.given.k)

    def _tell(self) -> None:
        self.watch(Progress(self.findings.considered, self.layouts, least_of(self.findings)))


def least_of(findings: Findings) -> float:
    """Return the least of the objective that was found; infinity: no layout is possible so far."""
    return best.limit_of(findings.top, 1)


def _tasks(given: SearchInput, search: str, blocks: Sequence[RowBlock], known: Findings) -> list[BlockTask]:
    limits = Limits(best.limit_of(known.top, given.k), known.bests)
    return [BlockTask(given=given, search=search, block=block, limits=limits, version=version()) for block in blocks]


def _merged(given: SearchInput, blocks: Sequence[RowBlock], search: str, known: dict[str, Findings]) -> Findings:
    findings = Findings()
    for each in rounds_of(blocks):
        tasks = _tasks(given, search, each, findings)
        missing = sum(task.key not in known for task in tasks)
        if missing:
            hint = "Run `roofsim plan ... --block I/N` for each I, or name all folders that these wrote to."
            said = f"the results of {missing:,} of {len(blocks):,} blocks are missing"
            raise SpecError(Problem(said, Place("--merge"), hint=hint))
        for task in tasks:
            findings = findings.merged(known[task.key], given.k)
    return findings
