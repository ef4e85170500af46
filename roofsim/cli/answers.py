"""Hold what a verb prints until its files are written, and hand it to whatever standard output is."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from typing import Final, TextIO

from roofsim.errors import OutputError
from roofsim.output import encoded

#: Characters that go first and alone: a reader who was gone before them has got nothing.
_FIRST: Final = 1024


class Answer(io.StringIO):
    """Stands for standard output while a verb runs.

    Nothing is printed before `deliver`: files are whole by then, and a reader who leaves (``| head``) loses none of them.
    """

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__()
        self.stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of standard output: tables are drawn with the signs it has."""
        return getattr(self.stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Tell whether a person will see it."""
        with suppress(ValueError):  # closed
            return self.stream is not None and self.stream.isatty()
        return False

    def deliver(self) -> None:
        """Print what was held, in an encoding's own signs.

        Raises
        ------
        OutputError
            When none of it can be printed, or the rest of it; a reader who has got its beginning may leave.
        """
        text = self.getvalue()
        if not text:
            return
        if self.stream is None:
            raise OutputError("cannot print the answer: standard output is closed")
        shown = encoded(text, self.encoding).decode(self.encoding, errors="replace")
        started = False
        try:
            for part in (shown[:_FIRST], shown[_FIRST:]):
                self.stream.write(part)
                self.stream.flush()
                started = True
        except BrokenPipeError:
            self._give_up()
            if not started:
                raise OutputError("cannot print the answer: nothing reads standard output (broken pipe)") from None
        except (OSError, ValueError) as error:
            self._give_up()
            said = getattr(error, "strerror", None) or error
            raise OutputError(f"cannot print the answer: {said}") from None

    def _give_up(self) -> None:
        """Let what the stream still holds go nowhere, so that closing it at exit does not fail again."""
        if self.stream is not None:
            with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123  # no file of ours
                os.dup2(nowhere.fileno(), self.stream.fileno())
