"""Read the events of a trace in Chrome's format one at a time, so that a file of gigabytes takes the memory of one event."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import IO, TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Characters that are read at once, and that one event, or one value beside the events, may have.
CHUNK: Final = 2**20
LONGEST_VALUE: Final = 2**26
#: Events of a file: what is longer holds more steps than anybody compares.
MOST_EVENTS: Final = 50_000_000
_EVENTS: Final = "traceEvents"
_BLANK: Final = " \t\r\n"
#: What stands behind a value.
_BEHIND: Final = (",", "]", "}", ":", *_BLANK)
_GZIP: Final = b"\x1f\x8b"
_WAY_OUT: Final = "Export it again, and let the program end its profiler before it exits."


class EventReader:
    """The events of one file, and what stands beside them.

    Attributes
    ----------
    beside
        What the file holds beside its events, as far as it was read: all of it once the events have been.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.beside: dict[str, Any] = {}
        self._decoder = json.JSONDecoder()
        self._text, self._at, self._ended, self._count = "", 0, False, 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            with _opened(self.path) as stream:
                self._stream = stream
                yield from self._document()
        except (gzip.BadGzipFile, zlib.error) as error:
            raise self._wrong(f"is no sound gzip file: {error}") from None
        except EOFError:
            raise self._wrong("is cut off: the gzip file has no end") from None
        except OSError as error:
            raise SpecError(Problem(error.strerror or str(error), Place(str(self.path)))) from None

    # -- the document -------------------------------------------------------------------------------------------------

    def _document(self) -> Iterator[dict[str, Any]]:
        first = self._peek()
        if first == "[":
            yield from self._array()
            return
        if first != "{":
            raise self._wrong("is no trace: expected a JSON object with traceEvents, or an array of events")
        self._at += 1
        listed = False
        while (sign := self._peek()) != "}":
            if sign == ",":
                self._at += 1
                continue
            key = self._value()
            if not isinstance(key, str) or self._peek() != ":":
                raise self._wrong("is no JSON object where one is expected")
            self._at += 1
            if key == _EVENTS:
                if self._peek() != "[":
                    raise self._wrong(f"expected a list in {_EVENTS}")
                listed = True
                yield from self._array()
            else:
                self.beside[key] = self._value()
        if not listed:
            raise self._wrong(f"is no trace: it has no {_EVENTS}")

    def _array(self) -> Iterator[dict[str, Any]]:
        self._at += 1
        while (sign := self._peek()) != "]":
            if sign == ",":
                self._at += 1
                continue
            event = self._value()
            self._count += 1
            if self._count > MOST_EVENTS:
                raise self._wrong(f"has more than {MOST_EVENTS} events", "Profile fewer steps.")
            if isinstance(event, dict):
                yield event
        self._at += 1

    # -- characters ---------------------------------------------------------------------------------------------------

    def _more(self, size: int = CHUNK) -> bool:
        """Read on; whether there was anything."""
        piece = self._stream.read(size)
        self._text, self._at = self._text[self._at :] + piece, 0
        self._ended = not piece
        return bool(piece)

    def _peek(self) -> str:
        """Return the next character that is no blank.

        Raises
        ------
        SpecError
            At the end of the file: something is always expected.
        """
        while True:
            while self._at < len(self._text) and self._text[self._at] in _BLANK:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                raise self._wrong(f"is cut off after {self._count} events")

    def _value(self) -> Any:
        """Return the next value, reading on for as long as it is incomplete."""
        self._peek()
        size = CHUNK
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except RecursionError:
                raise self._wrong(f"event {self._count + 1} is nested too deeply") from None
            except ValueError as error:
                self._go_on(error, size)
                size *= 2
                continue
            if not self._ended and self._text[end : end + 1] not in _BEHIND:  # a number that may go on
                self._more(size)
                size *= 2
                continue
            self._at = end
            return value

    def _go_on(self, error: ValueError, size: int) -> None:
        """Read more of a value that could not be read yet.

        Raises
        ------
        SpecError
            When it is wrong rather than incomplete, or too long.
        """
        what = f"event {self._count + 1}"
        if len(self._text) - self._at > LONGEST_VALUE:
            raise self._wrong(f"{what} is longer than {LONGEST_VALUE} characters, or no JSON") from None
        if not isinstance(error, json.JSONDecodeError):
            raise self._wrong(f"{what} has a number of too many digits") from None
        left = len(self._text) - error.pos
        if self._ended or not self._more(size):
            if left <= 1 or error.msg.startswith("Unterminated"):
                raise self._wrong(f"is cut off in {what}") from None
            raise self._wrong(f"{what} is no JSON: {error.msg}", "") from None

    def _wrong(self, message: str, hint: str = _WAY_OUT) -> SpecError:
        return SpecError(Problem(message, Place(str(self.path)), hint=hint))


def _opened(path: Path) -> IO[str]:
    """Open a file, unpacked where it is packed; what is no UTF-8 stands as a mark in names."""
    with path.open("rb") as raw:
        packed = raw.read(2) == _GZIP
    if packed:
        return gzip.open(path, "rt", encoding="utf-8", errors="replace")
    return path.open("r", encoding="utf-8-sig", errors="replace")
