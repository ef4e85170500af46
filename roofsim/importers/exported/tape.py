"""Write down an exported program at one size, and make one program of several such tapes, sizes fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError
from roofsim.importers.captured.sizes import CaptureError, Point, sizes_of
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

#: Elements of a tensor, beyond which a file is taken for damaged.
MOST_ELEMENTS: Final = 10**15
#: Longest part of a name that is kept.
_NAME: Final = 200


def fail(source: str, message: str, hint: str = "", code: str = "") -> NoReturn:
    """Raise the error of a file."""
    raise SpecError(Problem(message, Place(source), hint=hint, code=code))


def shown(name: str) -> str:
    """Return a name of a file as it may be shown: printable, and not too long."""
    kept = "".join(each if each.isprintable() else "?" for each in name[: 2 * _NAME])
    return kept if len(kept) <= _NAME else kept[:_NAME] + "..."


@dataclass
class ExportTape:
    """The tensors and ops of a program at one size, in the form of a capture.

    Attributes
    ----------
    tensors, ops
        As `roofsim.importers.captured.form` describes them.
    module, line
        Where the ops that are written now come from.
    """

    tensors: list[dict[str, Any]] = field(default_factory=list)
    ops: list[dict[str, Any]] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    module: str = ""
    line: str = ""

    def tensor(
        self, shape: Sequence[int], dtype: str, *, role: str = "activation", name: str = "", base: int | None = None
    ) -> int:
        """Return the number of a new tensor."""
        entry: dict[str, Any] = {"shape": tuple(shape), "dtype": dtype}
        if role != "activation":
            entry["role"] = role
        if name:
            entry["name"] = shown(name)
        if base is not None:
            entry["base"] = base
        self.tensors.append(entry)
        return len(self.tensors) - 1

    def op(self, name: str, reads: Sequence[int], makes: Sequence[int], **given: Any) -> None:
        """Write down an op."""
        entry: dict[str, Any] = {"op": name, "reads": tuple(reads), "makes": tuple(makes)}
        entry |= {"module": shown(self.module), "line": shown(self.line)}
        if given:
            entry["given"] = given
        self.ops.append(entry)


def together(tapes: Sequence[ExportTape], points: Sequence[Point], source: str) -> dict[str, Any]:
    """Return tensors, ops and outputs of the one program that tapes of several sizes are.

    Raises
    ------
    SpecError
        Where other sizes have other ops, and where a size follows no polynomial of batch and length.
    """
    first = tapes[0]
    for tape, point in zip(tapes[1:], points[1:], strict=True):
        _check_same(first, tape, point, source)
    try:
        tensors = [
            entry | {"shape": sizes_of([tape.tensors[at]["shape"] for tape in tapes], list(points))}
            for at, entry in enumerate(first.tensors)
        ]
    except CaptureError as error:
        fail(source, str(error), FIX_SIZE)
    ops = [entry | _given([tape.ops[at] for tape in tapes]) for at, entry in enumerate(first.ops)]
    return {"tensors": tensors, "ops": ops, "outputs": first.outputs}


#: The way out where sizes do not follow batch and length.
FIX_SIZE: Final = "Fix one of its dimensions, such as --set model.dims.height=224 (names as in the file)."


def _check_same(first: ExportTape, other: ExportTape, point: Point, source: str) -> None:
    for one, two in zip(first.ops, other.ops, strict=False):
        if (one["op"], one["reads"], one["makes"]) != (two["op"], two["reads"], two["makes"]):
            fail(
                source,
                f"has other ops at batch {point[0]}, length {point[1]}: {one['op']} ({one['line']}) or {two['op']} ({two['line']})",
                FIX_SIZE,
            )
    if len(first.ops) != len(other.ops) or len(first.tensors) != len(other.tensors):
        fail(source, f"has {len(first.ops)} ops, or {len(other.ops)} at batch {point[0]}, length {point[1]}", FIX_SIZE)


def _given(ops: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what an op was called with, as far as it is the same at all sizes."""
    given = ops[0].get("given", {})
    same = {
        name: value for name, value in given.items() if all(op.get("given", {}).get(name) == value for op in ops[1:])
    }
    return {"given": same} if same else {"given": {}}
