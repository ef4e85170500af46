"""Tell which of PyTorch's ops show the storage of what they read, as its views do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Ops that are views always (PyTorch documentation, Tensor Views).
VIEWS: Final = frozenset(
    {
        *(
            "view",
            "_unsafe_view",
            "alias",
            "detach",
            "lift_fresh_copy",
            "unsqueeze",
            "squeeze",
            "view_as",
            "view_as_real",
        ),
        *(
            "view_as_complex",
            "t",
            "transpose",
            "permute",
            "movedim",
            "swapaxes",
            "slice",
            "select",
            "narrow",
            "diagonal",
        ),
        *(
            "unfold",
            "expand",
            "expand_as",
            "split",
            "split_with_sizes",
            "unbind",
            "chunk",
            "real",
            "imag",
            "as_strided",
        ),
        *("numpy_T", "mT", "unflatten", "dropout"),
    }
)
#: Ops that are views where the strides allow it, and copies elsewhere.
WHERE_POSSIBLE: Final = frozenset({"reshape", "flatten", "contiguous"})


def shows_its_input(op: str, sizes: Sequence[int], strides: Sequence[int], made: Sequence[int]) -> bool:
    """Tell whether an op gives out the storage of its first tensor, of `sizes` and `strides`; `made` is its result's shape."""
    name = op.partition(".")[2]
    if name in VIEWS or (name.endswith("_") and not name.startswith("_")):
        return True
    return name in WHERE_POSSIBLE and (
        viewable(sizes, strides, made) if name != "contiguous" else dense(sizes, strides)
    )


def dense(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Tell whether a tensor lies in its storage row by row.

    >>> dense((2, 3), (3, 1)), dense((2, 3), (1, 2))
    (True, False)
    """
    step = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def viewable(sizes: Sequence[int], strides: Sequence[int], made: Sequence[int]) -> bool:
    """Tell whether a tensor can be shown in another shape without a copy (ATen/TensorUtils.cpp, computeStride).

    >>> viewable((2, 3, 4), (12, 4, 1), (6, 4)), viewable((3, 2, 4), (4, 12, 1), (6, 4))
    (True, False)
    """
    chunks: list[int] = []
    elements, step = 1, strides[-1] if strides else 1
    for at in range(len(sizes) - 1, -1, -1):
        elements *= sizes[at]
        if at == 0 or (sizes[at - 1] != 1 and strides[at - 1] != elements * step):
            chunks.append(elements)
            elements, step = 1, strides[at - 1]
    return _fills(chunks, made)


def _fills(chunks: Sequence[int], made: Sequence[int]) -> bool:
    """Tell whether axes of a shape, from the last on, fill chunks of elements one after the other."""
    axes = list(made)
    for chunk in chunks:
        left = chunk
        while left > 1:
            if not axes or axes[-1] == 0 or left % axes[-1]:
                return False
            left //= axes.pop()
    return True
