"""Say which dimensions of an exported program are the batch and the length, and at which sizes it is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.importers.exported.expressions import names_in, value_of
from roofsim.importers.exported.tape import fail
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roofsim.importers.captured.sizes import Point

#: A size of an input: a number, or the name (or expression) of one that is open.
Dim = int | str
#: Sizes that an open dimension is tried at: sequences, and sides of images, which networks halve five times. The last is what is
#: meant where nobody says.
BATCHES: Final = (2, 3)
TOKENS: Final = (128, 256, 384, 512)
SIDES: Final = (192, 256, 288, 224)
#: Axes of an image's rows and columns, channels first and last.
_ROWS_FIRST: Final = (2, 3)
_ROWS_LAST: Final = (1, 2)
#: Channels of an image at most, where they tell that the last axis holds them.
_CHANNELS: Final = 4


@dataclass(frozen=True)
class ProgramInput:
    """What a program is called with: the name, whether it has floating numbers, and its sizes."""

    name: str
    floating: bool
    shape: tuple[Dim, ...]


@dataclass(frozen=True)
class Dims:
    """The open dimensions of a program.

    Attributes
    ----------
    counted_in
        As in a capture.
    batch
        Name of the open batch; None: it is fixed.
    length
        Names of what the length (or the side of an image) stands for; empty: it is fixed.
    batches, lengths
        Sizes at which the program is looked at; a fixed one is the only one.
    others
        Open dimensions that are neither.
    numbers
        Inputs of one whole number, which may be stated as sizes are.
    """

    counted_in: str
    batch: str | None
    length: tuple[str, ...]
    batches: tuple[int, ...]
    lengths: tuple[int, ...]
    others: tuple[str, ...]
    numbers: tuple[str, ...] = ()

    def points(self) -> list[Point]:
        """Return the sizes at which it is looked at: every length at one batch, the other batches at the first and the last."""
        ends = (self.lengths[0], self.lengths[-1])
        return [(b, n) for n in self.lengths for b in self.batches if b == self.batches[0] or n in ends]

    def values(self, point: Point, fixed: Mapping[str, int]) -> dict[str, int]:
        """Return the number of each open dimension at a point."""
        values = dict(fixed)
        if self.batch is not None:
            values[self.batch] = point[0]
        return values | dict.fromkeys(self.length, point[1])

    def check_bound(self, source: str) -> None:
        """Raise for dimensions that neither the batch nor the length stand for, and that nobody gave a number."""
        if self.others:
            first = self.others[0]
            fail(
                source,
                f"leaves sizes open that are neither its batch nor its length: {', '.join(self.others)}",
                f"State each: --set model.dims.{first}=128.",
            )


def dims_of(inputs: Sequence[ProgramInput], fixed: Mapping[str, int]) -> Dims:
    """Return what the open dimensions of a program's inputs stand for; `fixed` are those that the user gave a number.

    The batch is what is open at the first axis of an input. The length is what is open at the second axis of integers (tokens), the
    rows and columns of an image, or the one size that is left.
    """
    opened = _open(inputs, fixed)
    first = [each.shape[0] for each in inputs if each.shape]
    batch = next((name for name in opened if "batch" in name.lower()), None)
    if batch is None:
        batch = next((name for name in first if isinstance(name, str) and name in opened), None)
    image = next((each for each in inputs if each.floating and len(each.shape) == 4 and _sides(each)), None)
    tokens = next((each for each in inputs if not each.floating and len(each.shape) >= 2), None)
    rest = [name for name in opened if name != batch]
    counted, points = "samples", TOKENS
    length: list[str] = []
    sizes: tuple[Dim, ...] = ()
    if image is not None and (tokens is None or not rest):
        counted, sizes, points = "images", _sides(image), SIDES
        length = [name for name in sizes if isinstance(name, str) and name in rest]
    elif tokens is not None:
        counted, sizes = "tokens", (tokens.shape[1],)
        length = [name for name in sizes if isinstance(name, str) and name in rest]
    if not length and rest and not (sizes and isinstance(_number(sizes[0], fixed), int)):
        counted = "tokens" if counted == "samples" else counted
        length = rest[:1]
    usual = dims_of(inputs, {}) if fixed else None
    stood = next((fixed[name] for name in usual.length if name in fixed), None) if usual else None
    if usual is not None and stood is not None and not length:  # what stands for the length has a number
        counted = usual.counted_in
    number = next((n for size in sizes if (n := _number(size, fixed)) is not None), stood or 1)
    whole = next((n for size in first if (n := _number(size, fixed)) is not None), 1)
    return Dims(
        counted_in=counted,
        batch=batch,
        length=tuple(dict.fromkeys(length)),
        batches=BATCHES if batch is not None else (whole,),
        lengths=points if length else (number,),
        others=tuple(name for name in rest if name not in length),
    )


def size_at(size: Dim, values: Mapping[str, int], source: str) -> int:
    """Return a size for numbers of the open dimensions; raises `SpecError` for one that has none."""
    if isinstance(size, int):
        return size
    try:
        return value_of(size, values)
    except KeyError as error:
        fail(source, f"leaves the size {error.args[0]} open", f"State it: --set model.dims.{error.args[0]}=128.")
    except ValueError as error:
        fail(source, f"has a size that cannot be read: {error}")


def _open(inputs: Sequence[ProgramInput], fixed: Mapping[str, int]) -> list[str]:
    """Return the names of open dimensions, in order."""
    names: dict[str, None] = {}
    for each in inputs:
        for size in each.shape:
            if isinstance(size, str):
                names.update(dict.fromkeys(sorted(names_in(size))))
    return [name for name in names if name not in fixed]


def _number(size: Dim, fixed: Mapping[str, int]) -> int | None:
    return size if isinstance(size, int) else fixed.get(size)


def _sides(given: ProgramInput) -> tuple[Dim, ...]:
    """Return the rows and columns of what may be an image; nothing of what is none."""
    channels, last = given.shape[1], given.shape[3]
    axes = _ROWS_LAST if isinstance(last, int) and last <= _CHANNELS and channels not in (1, 3) else _ROWS_FIRST
    if isinstance(channels if axes == _ROWS_FIRST else last, str):
        return ()  # channels are never open
    sizes = tuple(given.shape[at] for at in axes)
    return sizes if isinstance(sizes[0], str) or sizes[0] == sizes[1] or isinstance(sizes[1], str) else sizes[:1]
