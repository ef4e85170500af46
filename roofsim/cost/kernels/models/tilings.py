"""Find how the matrix products of a generation are tiled."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from roofsim.cost.kernels.models.gemm import Tiling
from roofsim.spec import catalog
from roofsim.spec.reading.source import read_yaml

#: Number format -> the arithmetic under which its kernels were measured.
_ARITHMETIC: Final = {
    "fp64": "fp32", "fp32": "fp32", "tf32": "16-bit", "fp16": "16-bit", "bf16": "16-bit", "fp8": "fp8", "int8": "fp8",
    "fp6": "fp8", "fp4": "nvfp4", "int4": "nvfp4",
}  # fmt: skip


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = read_yaml(catalog.root() / "hardware" / "constants" / "tilings.yaml").data
    return found


@cache
def tiling_of(architecture: str, dtype: str) -> Tiling:
    """Return the tiling of an architecture's kernels in a number format; medians where nobody measured.

    >>> tiling_of("hopper", "bf16").wave < 0.5
    True
    """
    table, arithmetic = _table(), _ARITHMETIC.get(dtype, "16-bit")
    own = table.get(architecture, {})
    numbers = own.get(arithmetic) or table["shared"][arithmetic]
    return Tiling(**{name: float(value) for name, value in numbers.items()})
