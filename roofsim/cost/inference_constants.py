"""Find what the kernels of inference achieve on an architecture."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from roofsim.numeric import real
from roofsim.spec import catalog
from roofsim.spec.source import read_yaml
from roofsim.units import parse

if TYPE_CHECKING:
    from roofsim.spec.architecture import Architecture

#: What a table is called that holds for all kernel generations, or for all architectures.
ANY, SHARED = "any", "shared"


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = read_yaml(catalog.root() / "hardware" / "constants" / "inference.yaml").data
    return found


@cache
def constants_of(
    operation: str, architecture: str, generation: str | None, arithmetic: str
) -> tuple[bool, dict[str, float]]:
    """Return whether an architecture's kernels were measured, and the constants of a kernel generation.

    The generation's own, else medians over the architecture's, else medians over architectures.

    >>> constants_of("gemm", "hopper", None, "16-bit")[0], constants_of("gemm", "rdna3", None, "16-bit")[0]
    (True, False)
    """
    table = _table()[operation]
    own = table.get(architecture, {})
    for name in (generation, ANY):
        if arithmetic in own.get(name, {}):
            return True, _numbers(own[name][arithmetic])
    return False, _numbers(table[SHARED][ANY][arithmetic])


def _numbers(written: dict[str, Any]) -> dict[str, float]:
    return {name: parse(value, "s") if isinstance(value, str) else float(value) for name, value in written.items()}


def factor_of(architecture: Architecture, operation: str, generation: str | None) -> float:
    """Return the speed of a kernel generation that nobody measured against those that were."""
    measured = [name for name in _table()[operation].get(architecture.name, {}) if name != ANY]
    if generation is None or generation in measured or not measured:
        return 1.0
    speeds = sorted(architecture.attention_generations.get(name, 1.0) for name in measured)
    return float(real(architecture.attention_generations.get(generation, 1.0))) / speeds[len(speeds) // 2]
