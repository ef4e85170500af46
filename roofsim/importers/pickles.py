"""Load pickles of plain data, and look through them before: whether parts are as long as they say and nest no deeper than a stack.

The loader itself believes what a file says: a table of a billion entries, a tuple in a tuple in a tuple as the key of a mapping.
That is memory or a stack that runs out, not an exception.
"""

from __future__ import annotations

import io
import pickle
from typing import IO, Any, Final, NoReturn

#: Bytes of the argument behind each opcode of a fixed size; those that are not here have none.
_FIXED: Final = {
    pickle.BININT: 4, pickle.BININT1: 1, pickle.BININT2: 2, pickle.BINFLOAT: 8, pickle.BINGET: 1, pickle.LONG_BINGET: 4,
    pickle.BINPUT: 1, pickle.LONG_BINPUT: 4, pickle.PROTO: 1, pickle.FRAME: 8, pickle.EXT1: 1, pickle.EXT2: 2, pickle.EXT4: 4,
}  # fmt: skip
#: Bytes of the length that stands before a text, bytes or a long number.
_COUNTED: Final = {
    pickle.SHORT_BINUNICODE: 1,
    pickle.BINUNICODE: 4,
    pickle.BINUNICODE8: 8,
    pickle.SHORT_BINBYTES: 1,
    pickle.BINBYTES: 4,
    pickle.BINBYTES8: 8,
    pickle.SHORT_BINSTRING: 1,
    pickle.BINSTRING: 4,
    pickle.LONG1: 1,
    pickle.LONG4: 4,
    pickle.BYTEARRAY8: 8,
}
#: Lines of text behind an opcode.
_LINES: Final = {
    pickle.INT: 1,
    pickle.LONG: 1,
    pickle.FLOAT: 1,
    pickle.STRING: 1,
    pickle.UNICODE: 1,
    pickle.GET: 1,
    pickle.PUT: 1,
    pickle.PERSID: 1,
    pickle.GLOBAL: 2,
    pickle.INST: 2,
}
_SCALARS: Final = frozenset(
    (pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.BINFLOAT, pickle.INT, pickle.LONG, pickle.LONG1, pickle.LONG4,
     pickle.FLOAT, pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.SHORT_BINUNICODE, pickle.BINUNICODE, pickle.UNICODE)
)  # fmt: skip
_MEMO: Final = frozenset((pickle.MEMOIZE, pickle.BINPUT, pickle.LONG_BINPUT, pickle.PUT))
#: Tuples of so many of the last values; those of all values since a mark count as of more than any.
_TUPLES: Final = {pickle.TUPLE1: 1, pickle.TUPLE2: 2, pickle.TUPLE3: 3, pickle.TUPLE: 1 << 30}
#: Tuples of more than plain values that a file may hold; nested, they are taken apart without a check of the stack.
MOST_NESTED: Final = 5_000
#: Positions in the table of what is referred to again, beyond those that the opcodes so far can have filled.
_SPARE: Final = 256
_DIGITS: Final = 16

# What becomes of the row of plain values behind each of the 256 opcodes: it ends, grows, stays; or more than a table must say.
_ENDS, _GROWS, _STAYS, _LENGTH, _OTHER = range(5)


def _role(code: bytes) -> int:
    if code in _LINES or code in _TUPLES or code in (pickle.STOP, pickle.FRAME, pickle.LONG_BINPUT):
        return _OTHER
    if code in _COUNTED:
        return _LENGTH
    return _STAYS if code in _MEMO else _GROWS if code in _SCALARS else _ENDS


_KIND: Final = [bytes([code]) for code in range(256)]
_ROLE: Final = [_role(code) for code in _KIND]
#: Bytes of the argument, or of the length before it.
_SIZE: Final = [_FIXED.get(code, 0) + _COUNTED.get(code, 0) for code in _KIND]


class RefusedPickleError(Exception):
    """A pickle that names code."""


class _PlainUnpickler(pickle.Unpickler):
    """Builds containers, texts and numbers; every class or function comes through `find_class`, and none is let in."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise RefusedPickleError(f"{module}.{name}"[:80])

    def persistent_load(self, pid: Any) -> NoReturn:
        raise RefusedPickleError(f"a persistent object ({pid!r})"[:80])


def load_plain(file: IO[bytes]) -> Any:
    """Load a pickle of containers, texts and numbers; nothing that it may name is run.

    Raises
    ------
    RefusedPickleError
        When it names code.
    pickle.UnpicklingError
        When it is damaged, or made to break the loader; other errors of damaged pickles are the loader's.
    """
    data = file.read()
    check(data)
    return _PlainUnpickler(io.BytesIO(data)).load()


def check(data: bytes) -> None:
    """Raise unless a pickle can be loaded without harm.

    Raises
    ------
    pickle.UnpicklingError
        When a length or a position is beyond the file, tuples nest too far, or no end is marked.
    """
    size, at, plain, nested, count = len(data), 0, 0, 0, 0
    role, length = _ROLE, _SIZE
    while at < size:
        code = data[at]
        behind = at + 1 + length[code]
        kind = role[code]
        if kind == _GROWS:
            plain += 1
        elif kind == _LENGTH:
            behind += int.from_bytes(data[at + 1 : behind], "little")
            if behind > size:
                raise pickle.UnpicklingError("a part is longer than the file")
            plain += 1
        elif kind == _ENDS:
            plain = 0
        elif kind == _OTHER:
            name = _KIND[code]
            if name == pickle.STOP:
                return
            if name in _TUPLES:
                nested += plain < _TUPLES[name]
            plain = plain if name in _MEMO else plain + 1 if name in _SCALARS else 0
            behind = _behind(data, at, name, count)
        if nested > MOST_NESTED:
            raise pickle.UnpicklingError(f"more than {MOST_NESTED} tuples of tuples")
        at = behind
        count += 1
    raise pickle.UnpicklingError("it has no end")


def _behind(data: bytes, at: int, code: bytes, count: int) -> int:
    """Return where the argument of an opcode ends that says how far it reaches, in lines or in numbers."""
    start = at + 1
    behind = start + _FIXED.get(code, 0)
    value = int.from_bytes(data[start:behind], "little")
    for _ in range(_LINES.get(code, 0)):
        end = data.find(b"\n", behind)
        if end < 0:
            raise pickle.UnpicklingError("a line has no end")
        if code == pickle.PUT:
            digits = data[start:end]
            value = int(digits) if digits.isdigit() and len(digits) < _DIGITS else count + _SPARE + 1
        behind = end + 1
    if code == pickle.FRAME and value > len(data) - behind:
        raise pickle.UnpicklingError("a part is longer than the file")
    if code in (pickle.LONG_BINPUT, pickle.PUT) and value > count + _SPARE:
        raise pickle.UnpicklingError(f"it puts a value far beyond its table of {count}")
    return behind
