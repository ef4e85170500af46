"""Answer questions in a process of its own, which may be ended at any time: ``python -m roofsim.web.worker``.

A message is its length in four bytes and its bytes. A question is the verb, a zero byte and the request as JSON; an answer ``1`` or
``0`` (an error document) and the answer as JSON. The first message of a worker is ``ready``.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import sys
from typing import IO, TYPE_CHECKING, Any, Final

import roofsim.report.html
from roofsim.spec import usual
from roofsim.web.confined import confine, limit_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LENGTH: Final = 4
#: Bytes of memory that a process which answers may take; its first argument states others.
MEMORY: Final = 4 * 2**30
READY: Final = b"ready"
#: Objects between two searches for cycles (Python's own: 700): an answer makes many, and little garbage.
_ALLOCATIONS: Final = 200_000
#: What a worker that has just started is asked, so that what an answer needs is imported and read before somebody waits for it:
#: first what the page asks when it opens.
WARM: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    (
        "run",
        {"scenario": {"model": usual.EXAMPLES["model"][0], "workload": {"phase": "decode", "engine": usual.SERVER}}},
    ),
    ("catalog", {}),
    ("run", {"scenario": {"model": usual.ANY_MODEL}}),
    ("run", {"scenario": {"model": usual.ANY_MODEL, "hardware": {"gpus": 2}}}),
    ("whatif", {"scenario": {"model": usual.ANY_MODEL}, "options": {"changes": ["memory.bandwidth=2x"]}}),
    ("sweep", {"scenario": {"model": usual.ANY_MODEL}, "options": {"axes": {"micro_batch_size": [1, 2]}}}),
)


#: What other verbs import.
_IMPORTED: Final = (
    "roofsim.analyze.explain",
    "roofsim.compare.build",
    "roofsim.decide.advise",
    "roofsim.decide.need",
    "roofsim.search.fitting.answer",
    "roofsim.search.planning.plan",
    "roofsim.search.serving.search",
    "roofsim.serve.any_model",
    "roofsim.views",
)


def framed(message: bytes) -> bytes:
    """Return a message with its length before it."""
    return len(message).to_bytes(LENGTH, "big") + message


def answered(message: bytes) -> bytes:
    """Return the answer to a question, both as messages."""
    from roofsim.errors import SpecError
    from roofsim.spec.reading.json_text import parse_json
    from roofsim.web.ask import ask
    from roofsim.web.problems import error_document

    verb, _, body = message.partition(b"\0")
    try:
        request = parse_json(body.decode("utf-8", errors="replace"), "request")
    except SpecError as error:
        answer = error_document(error)
    else:
        answer = ask(verb.decode("ascii", "replace"), request)
    try:
        text = json.dumps(answer, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        answer = error_document(error)
        text = json.dumps(answer)
    return (b"1" if answer["ok"] else b"0") + text.encode("ascii")


def warm(questions: Sequence[tuple[str, dict[str, Any]]] = WARM) -> None:
    """Ask and import what a first answer would have to wait for."""
    for _ in warmed(questions):
        pass


def warmed(questions: Sequence[tuple[str, dict[str, Any]]] = WARM) -> Iterator[str]:
    """Do what `warm` does in steps, and yield what each was: a verb, or a module."""
    for verb, request in questions:
        answered(verb.encode() + b"\0" + json.dumps(request).encode())
        yield verb
    pages = [f"roofsim.report.html.{each.name}" for each in pkgutil.iter_modules(roofsim.report.html.__path__)]
    for name in (*_IMPORTED, *pages):
        importlib.import_module(name)
        yield name
    gc.collect()
    gc.freeze()  # what is there by now stays, and need not be searched for cycles
    gc.set_threshold(_ALLOCATIONS)


def until_asked(source: IO[bytes], steps: Iterator[Any]) -> None:
    """Do steps while no question waits; where the system cannot say whether one does (pipes of Windows), all of them."""
    while not _is_asked(source):
        try:
            next(steps)
        except StopIteration:
            return


def _is_asked(source: IO[bytes]) -> bool:
    if os.name == "nt":
        return False
    return bool(select.select([source], [], [], 0)[0])


def _message(source: IO[bytes]) -> bytes | None:
    """Return the next message; None where the other end is gone."""
    head = source.read(LENGTH)
    if len(head) < LENGTH:
        return None
    size = int.from_bytes(head, "big")
    body = source.read(size)
    return body if len(body) == size else None


def main() -> None:
    """Answer until the server is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends its workers
    asked = sys.stdin.buffer
    said = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints does not print into an answer
    sys.dont_write_bytecode = True
    limit_memory(int(sys.argv[1]) if len(sys.argv) > 1 else MEMORY)
    confine()
    said.write(framed(READY))
    said.flush()
    steps = warmed()
    until_asked(asked, steps)
    while (message := _message(asked)) is not None:
        said.write(framed(answered(message)))
        said.flush()
        until_asked(asked, steps)


if __name__ == "__main__":
    main()
