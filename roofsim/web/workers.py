"""Keep processes that answer: a few at work, a few questions in line, none longer than a limit."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from roofsim.web.worker import LENGTH, READY, framed

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from typing import Any

#: What starts a worker: Python, without what lies in the working directory.
COMMAND: Final = (sys.executable, "-P", "-m", "roofsim.web.worker")
#: Seconds that a worker may take to start.
_STARTING: Final = 120.0
#: Seconds that a worker may go on with a question that nobody waits for any more; starting another takes longer.
_GRACE: Final = 2.0
#: The longest answer.
_LARGEST: Final = 256 * 2**20
_THREADS: Final = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


class BusyError(Exception):
    """So many questions are being answered and in line that this one is refused."""


class LateError(Exception):
    """A question took longer than the limit."""


class LostError(Exception):
    """The process that worked out an answer ended."""


class Worker:
    """One process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def started(cls, command: Sequence[str]) -> Worker:
        """Return a worker that is ready.

        Raises
        ------
        LostError
            Where it does not start.
        """
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=_environment(),
            limit=2**20,
        )
        worker = cls(process)
        try:
            async with asyncio.timeout(_STARTING):
                if await worker._message() != READY:
                    raise LostError
        except BaseException as error:
            await worker.end()
            if isinstance(error, TimeoutError | asyncio.IncompleteReadError):
                raise LostError from None
            raise
        return worker

    async def _message(self) -> bytes:
        assert self.process.stdout is not None
        size = int.from_bytes(await self.process.stdout.readexactly(LENGTH), "big")
        if size > _LARGEST:
            raise LostError
        return await self.process.stdout.readexactly(size)

    async def ask(self, message: bytes) -> bytes:
        """Return the answer to a question.

        Raises
        ------
        LostError
            Where the process ends before it answers.
        """
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(framed(message))
            await self.process.stdin.drain()
            return await self._message()
        except (OSError, asyncio.IncompleteReadError):
            raise LostError from None

    async def end(self) -> None:
        """End the process."""
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()


def _environment() -> dict[str, str]:
    """Return the environment of a worker: it finds this very package, and nothing that lies in the working directory."""
    paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | dict.fromkeys(_THREADS, "1") | {"PYTHONPATH": os.pathsep.join(paths)}


class WorkerPool:
    """Some workers, and the line of questions before them.

    Parameters
    ----------
    size, waiting
        Processes, and questions that may wait for one.
    limit
        Seconds that a question may wait, and as many that it may be at work.
    command
        What starts a worker.
    """

    def __init__(self, size: int, limit: float, waiting: int, command: Sequence[str] = COMMAND) -> None:
        self.size, self.limit, self.most, self.command = size, limit, size + waiting, command
        self.asked = 0
        self._idle: asyncio.Queue[Worker] = asyncio.Queue()
        self._every: set[Worker] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ended = False

    def start(self) -> None:
        """Start the workers; questions wait until the first is ready."""
        for _ in range(self.size):
            self._spawn(self._add())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _add(self) -> None:
        while not self._ended:
            try:
                worker = await Worker.started(self.command)
            except LostError:
                await asyncio.sleep(1.0)
                continue
            self._every.add(worker)
            self._idle.put_nowait(worker)
            return

    async def end(self) -> None:
        """End every worker."""
        self._ended = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(worker.end() for worker in self._every))
        self._every.clear()

    async def ask(self, message: bytes) -> bytes:
        """Return the answer to a question.

        Raises
        ------
        BusyError
            When the line is full.
        LateError
            When the limit is reached, in line or at work; the worker is replaced.
        LostError
            When the worker ends; it is replaced.
        """
        if self.asked >= self.most:
            raise BusyError
        self.asked += 1
        try:
            try:
                async with asyncio.timeout(self.limit):
                    worker = await self._idle.get()
            except TimeoutError:
                raise LateError from None
            return await self._asked(worker, message)
        finally:
            self.asked -= 1

    async def _asked(self, worker: Worker, message: bytes) -> bytes:
        work = asyncio.get_running_loop().create_task(worker.ask(message))
        try:
            async with asyncio.timeout(self.limit):
                answer = await asyncio.shield(work)
        except asyncio.CancelledError:
            self._spawn(self._finish(worker, work))
            raise
        except TimeoutError:
            work.cancel()
            self._replace(worker)
            raise LateError from None
        except LostError:
            self._replace(worker)
            raise
        self._idle.put_nowait(worker)
        return answer

    async def _finish(self, worker: Worker, work: asyncio.Task[bytes]) -> None:
        """Let a worker finish what nobody waits for, for a while."""
        try:
            async with asyncio.timeout(_GRACE):
                await work
        except (TimeoutError, LostError):
            self._replace(worker)
        else:
            self._idle.put_nowait(worker)

    def _replace(self, worker: Worker) -> None:
        self._every.discard(worker)
        self._spawn(worker.end())
        self._spawn(self._add())
