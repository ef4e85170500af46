"""Enumerate layouts as arrays: the rows whose degrees multiply to the GPUs and whose micro batches divide the batch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

#: The numbers of a layout, in the order in which they are joined.
LAYOUT: Final = (
    "gpus",
    "tensor",
    "pipeline",
    "context",
    "micro_batch_size",
    "virtual_stages",
    "expert",
    "expert_tensor",
)


@dataclass(frozen=True)
class Joined:
    """Combinations of values: of each axis the place of each row's value, and the value itself."""

    places: dict[str, NDArray[np.int32]]
    values: dict[str, NDArray[np.float64]]

    def __len__(self) -> int:
        return len(next(iter(self.places.values()))) if self.places else 1

    def crossed(self, name: str, values: Sequence[float]) -> Joined:
        """Return each row with each value of one more axis; its values change fastest."""
        count, width = len(self), len(values)
        places = {key: np.repeat(each, width) for key, each in self.places.items()}
        known = {key: np.repeat(each, width) for key, each in self.values.items()}
        own = np.tile(np.arange(width, dtype=np.int32), count)
        return Joined(places | {name: own}, known | {name: np.asarray(values, dtype=np.float64)[own]})

    def kept(self, condition: NDArray[np.bool_]) -> Joined:
        """Return the rows for which a condition holds."""
        return self.taken(np.flatnonzero(condition))

    def taken(self, where: NDArray[np.int64]) -> Joined:
        """Return some rows."""
        return Joined(
            {key: each[where] for key, each in self.places.items()},
            {key: each[where] for key, each in self.values.items()},
        )


@dataclass(frozen=True)
class Numbered:
    """Numbers of layouts, worked out a part at a time: there may be more than fit in memory.

    Attributes
    ----------
    first
        Places of combinations of values.
    width
        How many numbers follow each other for each of them.

    >>> Numbered(np.array([0, 4]), 3)[1:5].tolist()
    [1, 2, 12, 13]
    """

    first: NDArray[np.int32]
    width: int

    def __len__(self) -> int:
        return len(self.first) * self.width

    def __getitem__(self, part: slice) -> NDArray[np.int64]:
        which, rest = np.divmod(np.arange(*part.indices(len(self))), self.width)
        return self.first[which] * np.int64(self.width) + rest


def joined_layouts(axes: Mapping[str, Sequence[float]], *, batch: float | None, depth: int, trains: bool) -> Joined:
    """Return the layouts of some numbers of GPUs.

    Parameters
    ----------
    axes
        Field of `LAYOUT` -> its values; a field that is left out is 1.
    batch
        Sequences or images of a step: of all micro batches in training, of all replicas in inference; None: any.
    depth
        Layers that stages may have.
    """
    rows = Joined({}, {})
    for name in LAYOUT:
        if name in axes:
            rows = rows.crossed(name, axes[name])
            value = _Values(rows)
            if name in ("tensor", "pipeline", "context"):
                rows = rows.kept((value.gpus % value.groups == 0) & (value.pipeline <= max(depth, 1)))
            elif name == "micro_batch_size" and batch is not None:
                each = value.micro_batch_size * value.data
                rows = rows.kept(batch % each == 0 if trains else each == batch)
            elif name == "virtual_stages":
                several = (value.pipeline > 1) & (value.pipeline * value.virtual_stages <= depth)
                rows = rows.kept((value.virtual_stages == 1) | several)
            elif name in ("expert", "expert_tensor"):
                rows = rows.kept(_shared_experts(value, trains=trains, widths=name == "expert_tensor"))
    return rows


def _shared_experts(value: _Values, *, trains: bool, widths: bool) -> Any:
    """Tell which rows deal experts out over the ranks of a stage, each whole or split as tensor does."""
    ranks = value.tensor * value.data * (value.context if trains else 1.0)
    if not widths:
        return ranks % value.expert == 0
    return (value.expert_tensor == _usual_width(value)) | (
        (value.expert_tensor == value.tensor) & (ranks % (value.expert * value.expert_tensor) == 0)
    )


def usual_width(rows: Joined) -> Any:
    """Return over how many ranks experts are split in each row where nobody says so: as tensors, or not when they are dealt out."""
    return _usual_width(_Values(rows))


def _usual_width(value: _Values) -> Any:
    return np.where(value.expert > 1, 1.0, value.tensor)


class _Values:
    """The numbers of rows by name; 1 where no axis has them."""

    def __init__(self, rows: Joined) -> None:
        self._rows = rows

    def __getattr__(self, name: str) -> Any:
        return self._rows.values.get(name, 1.0)

    @property
    def groups(self) -> Any:
        """Ranks that one replica takes."""
        return self.tensor * self.pipeline * self.context

    @property
    def data(self) -> Any:
        """Replicas: the GPUs that remain."""
        return self.gpus // self.groups


def divisors(number: int) -> list[int]:
    """Return the numbers that divide another, the least first.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [each for each in range(1, math.isqrt(number) + 1) if number % each == 0]
    return sorted({*small, *(number // each for each in small)})


def doublings(most: int) -> list[int]:
    """Return the powers of two up to a number.

    >>> doublings(9)
    [1, 2, 4, 8]
    """
    return [2**power for power in range(max(most, 1).bit_length())]
