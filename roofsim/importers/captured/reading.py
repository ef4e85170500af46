"""Read a captured program: a file of JSON, compressed or not, checked before anything is made of it."""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from roofsim.errors import Place, Problem, SpecError
from roofsim.importers.captured.form import SCHEMA, Capture
from roofsim.kept import Kept
from roofsim.output import NOT_READ, WAY_OUT, are_closed
from roofsim.spec.reading.foreign import is_capture
from roofsim.spec.reading.source import from_mapping
from roofsim.spec.reading.told_apart import Imported
from roofsim.spec.reading.validate import validate

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The largest file, and the most that a compressed one may hold: a model of ten thousand ops has three MiB.
LARGEST_FILE: Final = 64 * 2**20
#: Families by what a capture's batch is counted in.
FAMILIES: Final = {"tokens": "captured", "images": "captured-images", "samples": "captured-samples"}
_GZIP: Final = b"\x1f\x8b"
_READ: Final[Kept[tuple[Capture, str]]] = Kept(8)
_BY_DIGEST: Final[Kept[Capture]] = Kept(8)


def read_capture(path: Path) -> tuple[Capture, str]:
    """Return the program of a file, and the digest of its bytes; the latest are kept.

    Raises
    ------
    SpecError
        For a file that is missing, too large, damaged, of another form, or that contradicts itself.
    """
    raw = _bytes_of(path)
    digest = hashlib.sha256(raw).hexdigest()[:16]
    capture = _BY_DIGEST.get(digest, lambda: parse_capture(_text_of(raw, str(path)), str(path)))
    return capture, digest


def capture_of(file: str, digest: str) -> Capture:
    """Return the program that a model names by its file and digest; raises as `read_capture`, and where the file changed."""
    known = _BY_DIGEST.known(digest)
    if known is not None:
        return known
    capture, now = read_capture(Path(file))
    if now != digest:
        _fail(file, "has changed since it was read", "Run the command again.")
    return capture


def parse_capture(text: str, source: str) -> Capture:
    """Return the program that a text of JSON describes; `source` names it in messages. Raises as `read_capture`."""
    try:
        data = json.loads(text, parse_constant=_no_number)
    except RecursionError:
        _fail(source, "is nested too deeply")
    except ValueError as error:
        _fail(source, f"is not valid JSON: {error}", "The file may have been cut off: capture it again.")
    if not is_capture(data):
        _fail(
            source,
            "holds no captured program",
            "`roofsim capture --write capture.py` writes the script that makes one.",
        )
    if data["schema"] != SCHEMA:
        _fail(source, f"has the form {str(data['schema'])[:60]}; this roofsim reads {SCHEMA}", "Capture it again.")
    capture = validate(Capture, from_mapping(data, source))
    for problem in _contradictions(capture):
        _fail(source, problem, "The file was changed or damaged: capture it again.")
    return capture


def import_capture(path: Path) -> Imported:
    """Return the model of a captured program: its family, its file, and how it is counted. Raises as `read_capture`."""
    return _imported(str(path), *read_capture(path))


def import_capture_data(data: dict[str, Any], where: str) -> Imported:
    """Return the model of a captured program that stands in a scenario itself. Raises as `read_capture`."""
    text = json.dumps(data)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return _imported(where, _BY_DIGEST.get(digest, lambda: parse_capture(text, where)), digest)


def _imported(file: str, capture: Capture, digest: str) -> Imported:
    lengths, batches = capture.symbols.length, capture.symbols.batch
    mapping: dict[str, Any] = {
        "family": FAMILIES[capture.counted_in],
        "name": capture.name,
        "file": file,
        "digest": digest,
        "trains": capture.loss is not None,
        "batches": list(batches),
        "source": f"captured by torch {capture.made_by.get('torch', '?')}",
        "parameters": capture.parameters,
        "stacks": _stacks(capture),
    }
    if capture.counted_in != "samples":
        mapping["lengths"] = list(lengths)
    return Imported(mapping=mapping)


def _stacks(capture: Capture) -> dict[str, int]:
    """Return the lists of modules that a program goes through, and how many modules each has."""
    counts: dict[str, int] = {}
    for path in {op.module for op in capture.ops}:
        parts = path.split(".")
        for at, part in enumerate(parts):
            if part.isdecimal() and len(part) < 9:
                stack = ".".join(parts[:at])
                counts[stack] = max(counts.get(stack, 0), int(part) + 1)
    return {stack: count for stack, count in sorted(counts.items()) if stack and count > 1}


def _contradictions(capture: Capture) -> Iterable[str]:
    """Yield what makes a program impossible: numbers of tensors that are not there, or are not made yet."""
    count = len(capture.tensors)
    made = {at for at, tensor in enumerate(capture.tensors) if tensor.role != "activation"}
    for at, tensor in enumerate(capture.tensors):
        if tensor.base is not None and tensor.base >= at:
            yield f"tensors[{at}]: is a view of tensor {tensor.base}, which does not come before it"
        for size in tensor.shape:
            if isinstance(size, tuple) and any(term[1] <= 0 or min(term[2:]) < 0 or max(term[2:]) > 4 for term in size):
                yield f"tensors[{at}].shape: expected terms [numerator, denominator > 0, power of batch, power of length]"
    named = [
        *((f"ops[{at}]", number) for at, op in enumerate(capture.ops) for number in (*op.reads, *op.makes, *op.holds))
    ]
    named += [("outputs", number) for number in capture.outputs] + [("saved", number) for number in capture.saved]
    named += [] if capture.loss is None else [("loss", capture.loss)]
    for where, number in named:
        if number >= count:
            yield f"{where}: names tensor {number}, but there are {count}"
            return
    yield from _out_of_order(capture, made)


def _out_of_order(capture: Capture, made: set[int]) -> Iterable[str]:
    """Yield ops that read what is not made yet, or make what is there; `made` is there from the start."""
    for at, op in enumerate(capture.ops):
        for number in op.reads:
            if number not in made and capture.tensors[number].base is None:
                yield f"ops[{at}]: reads tensor {number}, which no op before it makes"
        for number in op.makes:
            if number in made:
                yield f"ops[{at}]: makes tensor {number} a second time"
        made.update(op.makes)


def _bytes_of(path: Path) -> bytes:
    if are_closed():
        _fail(str(path), NOT_READ, WAY_OUT)
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            _fail(str(path), f"has {size / 2**20:.0f} MiB; a captured program has at most {LARGEST_FILE // 2**20}")
        return path.read_bytes()
    except OSError as error:
        _fail(str(path), f"cannot be read: {error.strerror or error}")


def _text_of(raw: bytes, source: str) -> str:
    """Return the text of a file's bytes, unpacked if need be."""
    if raw.startswith(_GZIP):
        try:
            unpacking = zlib.decompressobj(wbits=31)
            raw = unpacking.decompress(raw, LARGEST_FILE + 1)
        except zlib.error as error:
            _fail(source, f"is a damaged gzip file: {error}")
        if len(raw) > LARGEST_FILE:
            _fail(source, f"unpacks to more than {LARGEST_FILE // 2**20} MiB")
        if not unpacking.eof:
            _fail(source, "is a gzip file that was cut off")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _fail(source, f"is not UTF-8 text (byte {error.start})")


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _fail(source: str, message: str, hint: str = "") -> NoReturn:
    raise SpecError(Problem(message, Place(source), hint=hint))
