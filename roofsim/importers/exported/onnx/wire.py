"""Read an ONNX file without its weights: copy the protobuf message, payloads of large tensors left out."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Final

from roofsim.importers.exported.tape import fail

if TYPE_CHECKING:
    from pathlib import Path

#: Bytes of a tensor that are kept: shapes, axes and small tables are read, weights are not.
KEPT: Final = 16 * 1024
#: The most that is left of a file without its weights.
LARGEST: Final = 256 * 2**20
#: Subgraphs in subgraphs.
_DEEPEST: Final = 16
#: Message -> field -> the message in it, of those that hold tensors (onnx/onnx.proto).
_HOLDS: Final = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
#: Fields of a tensor that hold its elements: float, int32, string, int64, raw, double, uint64 (onnx/onnx.proto).
_PAYLOAD: Final = frozenset({4, 5, 6, 7, 9, 10, 11})
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
#: Payload of tensors that other packages wrote one element at a time, and not packed.
_UNPACKED: Final = frozenset({_VARINT, _FIXED64, _FIXED32})


class _DamagedError(ValueError):
    """A message that ends early, or that is none."""


def without_weights(path: Path) -> bytes:
    """Return the bytes of a model whose large tensors have a shape and no elements.

    Raises
    ------
    SpecError
        For a file that is no message of protobuf, that was cut off, that is nested too deeply, or too large without its weights.
    """
    try:
        with path.open("rb") as file:
            if not file.seek(0, 2):
                fail(str(path), "is empty; expected an ONNX model")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                try:
                    return _Stripper(content).message(0, len(content), "model", 0)
                except _DamagedError as error:
                    fail(str(path), f"is not an ONNX model, or was cut off: {error}", "Export or download it again.")
    except OSError as error:
        fail(str(path), f"cannot be read: {error.strerror or error}")


class _Stripper:
    def __init__(self, content: mmap.mmap) -> None:
        self.content = content
        self.kept = 0

    def message(self, start: int, stop: int, kind: str, depth: int) -> bytes:
        """Return the message between two places, without the payloads of large tensors in it."""
        if depth > _DEEPEST:
            raise _DamagedError(f"subgraphs are nested more than {_DEEPEST} deep")
        inner, out, at = _HOLDS.get(kind, {}), bytearray(), start
        large = kind == "tensor" and stop - start > KEPT
        while at < stop:
            begin = at
            key, at = self._varint(at, stop)
            field, wire = key >> 3, key & 7
            if wire == _BYTES:
                size, at = self._varint(at, stop)
                if size > stop - at:
                    raise _DamagedError(f"a field of {size} bytes at byte {begin} reaches beyond its end")
                below = inner.get(field)
                if below is not None:
                    part = self.message(at, at + size, below, depth + (below == "graph"))
                    out += _varint(key) + _varint(len(part)) + part
                elif not (large and field in _PAYLOAD):
                    out += self._keep(begin, at + size)
                at += size
            else:
                at = self._skip(at, stop, wire)
                if not (large and field in _PAYLOAD and wire in _UNPACKED):
                    out += self._keep(begin, at)
        return bytes(out)

    def _keep(self, start: int, stop: int) -> bytes:
        self.kept += stop - start
        if self.kept > LARGEST:
            raise _DamagedError(f"it has more than {LARGEST // 2**20} MiB beside its weights")
        return self.content[start:stop]

    def _skip(self, at: int, stop: int, wire: int) -> int:
        if wire == _VARINT:
            return self._varint(at, stop)[1]
        size = {_FIXED64: 8, _FIXED32: 4}.get(wire)
        if size is None or at + size > stop:
            raise _DamagedError(f"byte {at} belongs to no field")
        return at + size

    def _varint(self, at: int, stop: int) -> tuple[int, int]:
        value = shift = 0
        while at < stop and shift < 64:
            byte = self.content[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value, at
            shift += 7
        raise _DamagedError(f"a number at byte {at} has no end")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
