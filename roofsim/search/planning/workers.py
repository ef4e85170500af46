"""Search blocks: in this process, in several of this machine, or on a Dask cluster; the same results in any order."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from roofsim.errors import NoDataError, Place, Problem, SpecError
from roofsim.search.planning.blocks import search_block

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future, ProcessPoolExecutor

    from roofsim.search.planning.blocks import BlockTask
    from roofsim.search.planning.findings import Findings

#: Tasks that wait for each process: the more, the more results are held at once.
_WAITING: Final = 4
#: Times that processes are started again after one of them ended before its work was done.
_STARTS: Final = 3


class BlockWorkers(Protocol):
    """What searches blocks."""

    def results(self, tasks: Sequence[BlockTask]) -> Iterator[tuple[str, Findings]]:
        """Yield the name and the findings of each task as it is done; of one that was searched twice perhaps twice."""
        ...


class ThisProcess:
    """Search blocks one after the other."""

    def results(self, tasks: Sequence[BlockTask]) -> Iterator[tuple[str, Findings]]:
        """Yield the findings of each task."""
        yield from map(search_block, tasks)


class Processes:
    """Search blocks in several processes of this machine."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ProcessPoolExecutor | None = None

    def results(self, tasks: Sequence[BlockTask]) -> Iterator[tuple[str, Findings]]:
        """Yield the findings of each task; where a process ends before its work is done, others do it.

        Raises
        ------
        NoDataError
            When processes end again and again.
        """
        from concurrent.futures import FIRST_COMPLETED, wait
        from concurrent.futures.process import BrokenProcessPool

        left = {task.key: task for task in tasks}
        for _ in range(_STARTS):
            waiting: set[Future[tuple[str, Findings]]] = set()
            todo = iter(list(left.values()))
            try:
                while left:
                    while len(waiting) < _WAITING * self.count and (task := next(todo, None)) is not None:
                        waiting.add(self._started().submit(search_block, task))
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    for one in done:
                        name, findings = one.result()
                        left.pop(name, None)
                        yield name, findings
            except BrokenProcessPool:
                self.close()
            else:
                return
        raise NoDataError(
            f"the processes of a search ended {_STARTS} times before their work was done, perhaps for want of memory. "
            "Use fewer (--jobs)"
        )

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            from concurrent.futures import ProcessPoolExecutor

            self._pool = ProcessPoolExecutor(self.count, initializer=_interrupted)
        return self._pool

    def close(self) -> None:
        """End the processes; what they have begun is lost."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _interrupted() -> None:
    """Let Ctrl-C end a process at once; the one that asks says so."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class DaskCluster:
    """Search blocks on the workers of a Dask cluster.

    Parameters
    ----------
    client
        A `distributed.Client`.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    def results(self, tasks: Sequence[BlockTask]) -> Iterator[tuple[str, Findings]]:
        """Yield the findings of each task; Dask gives those of a worker that dies to others."""
        import distributed

        futures = [self.client.submit(search_block, task, key=f"roofsim-{task.key}", pure=True) for task in tasks]
        as_completed: Any = distributed.as_completed
        for _, result in as_completed(futures, loop=self.client.loop, with_results=True):
            yield result


@contextmanager
def workers_for(jobs: int, scheduler: str | None) -> Iterator[BlockWorkers]:
    """Give what searches: a number of processes, or the cluster of a scheduler (``tcp://host:8786``).

    Raises
    ------
    SpecError
        When Dask is not installed, or nothing answers at the address.
    """
    if scheduler is not None:
        client = _client(scheduler)
        try:
            yield DaskCluster(client)
        finally:
            client.close()
    elif jobs > 1:
        processes = Processes(jobs)
        try:
            yield processes
        finally:
            processes.close()
    else:
        yield ThisProcess()


def _client(address: str) -> Any:
    place = Place("--scheduler")
    try:
        import distributed
    except ImportError:
        hint = "pip install 'roofsim[dask]'"
        raise SpecError(Problem("a search on a cluster needs Dask, which is not installed", place, hint=hint)) from None
    connect: Any = distributed.Client
    try:
        return connect(address, timeout=10, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        hint = "Start one with `dask scheduler`, and workers with `dask worker tcp://HOST:8786`."
        said = f"no Dask scheduler answers at {address[:80]!r} ({type(error).__name__})"
        raise SpecError(Problem(said, place, hint=hint)) from None
