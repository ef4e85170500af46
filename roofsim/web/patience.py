"""Close connections on which no request comes in time: half-sent ones would keep all others out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

#: Seconds in which the head of a request has to be there, from the opening of a connection or the first byte behind an answer.
HEAD: Final = 10.0


class PatientProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with a limit on the time that the head of a request may take."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what came, which may be all of a head, or the beginning of the next one."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if not self._waits():
            self._forget()
        elif self._late is None:
            self._late = self.loop.call_later(HEAD, self._give_up)

    def _waits(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        if self._waits() and not self.transport.is_closing():
            self.transport.close()
