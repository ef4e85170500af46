"""Keep processes that answer calls: a few at once, each stopped where its call takes too long or nobody waits for it."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from anyio.abc import Process

    Told = Callable[[int, int], Awaitable[None]]

#: Bytes of a line that a process writes.
_LONGEST_LINE: Final = 64 * 2**20


class StoppedError(Exception):
    """A call that was stopped, or whose process ended."""


class CallPool:
    """Processes that answer calls.

    Parameters
    ----------
    folders
        Folders whose files a call may name.
    most
        Calls that run at once; others wait.
    seconds
        Longest time of a call, in which it waits for others as well.
    characters
        Longest answer.
    """

    def __init__(self, folders: Sequence[str], *, most: int, seconds: float, characters: int) -> None:
        self.folders, self.seconds, self.characters = folders, seconds, characters
        self._room = anyio.Semaphore(most)
        self._idle: list[_Worker] = []

    async def answer(self, tool: str, arguments: dict[str, Any], told: Told) -> dict[str, Any]:
        """Return what a process answers to a call: ``answer`` or ``error``.

        Raises
        ------
        StoppedError
            After the time that a call has, or where the process ended by itself.
        """
        with anyio.move_on_after(self.seconds):
            async with self._room:
                return await self._answered({"tool": tool, "arguments": arguments, "limit": self.characters}, told)
        raise StoppedError(
            f"stopped after {self.seconds:g} s. Ask for less: fewer values, cards or GPUs; or raise `roofsim mcp --time-limit`"
        )

    async def _answered(self, call: dict[str, Any], told: Told) -> dict[str, Any]:
        worker = self._idle.pop() if self._idle else await _Worker.started(self.folders)
        try:
            answer = await worker.answer(call, told)
        except BaseException:  # cancelled, out of time, or broken: it is of no more use
            await worker.stop()
            raise
        self._idle.append(worker)
        return answer

    async def close(self) -> None:
        """Stop every process that waits for a call."""
        for worker in self._idle:
            await worker.stop()
        self._idle.clear()


class _Worker:
    """A process that answers calls."""

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        self.process, self.lines = process, BufferedByteReceiveStream(process.stdout)

    @classmethod
    async def started(cls, folders: Sequence[str]) -> _Worker:
        """Start a process; what it prints besides answers goes to standard error."""
        # -P: a file beside the working directory's own must not stand in for a module.
        command = [sys.executable, "-P", "-m", "roofsim.agents.worker", *folders]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
        return cls(await anyio.open_process(command, stderr=None, env=environment))

    async def answer(self, call: dict[str, Any], told: Told) -> dict[str, Any]:
        """Put a call and return its answer, passing on how far it is."""
        assert self.process.stdin is not None
        try:
            await self.process.stdin.send(json.dumps(call).encode() + b"\n")
            while True:
                said = json.loads(await self.lines.receive_until(b"\n", _LONGEST_LINE))
                if "progress" not in said:
                    answer: dict[str, Any] = said
                    return answer
                await told(*said["progress"])
        except (anyio.IncompleteRead, anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError):
            code = await self.process.wait()
            raise StoppedError(f"the process that worked it out ended by itself (exit code {code})") from None

    async def stop(self) -> None:
        """End the process at once."""
        with anyio.CancelScope(shield=True):
            with suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()
            await self.process.aclose()
