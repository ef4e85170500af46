"""Describe how far predicted memory may be off: half widths of 80 % intervals, with where they come from."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Final, Literal

from roofsim.schema.base import Field
from roofsim.spec import catalog
from roofsim.spec.reading.source import read_yaml
from roofsim.spec.reading.validate import validate
from roofsim.spec.strict import Strict

Width = Annotated[float, Field(gt=0.0, le=1.0)]

#: The figures that have an interval, each at least the one before.
FIGURES: Final = ("allocated_peak", "reserved", "device_total")


class Widths(Strict):
    """Half widths of the logarithm of each figure of memory; 80 % of measured ones lie within.

    Attributes
    ----------
    allocated_peak
        What tensors take (``torch.cuda.max_memory_allocated``).
    reserved
        What the allocator holds (``torch.cuda.max_memory_reserved``).
    device_total
        What the device shows (``nvidia-smi``), context included.
    """

    allocated_peak: Width
    reserved: Width
    device_total: Width


class MemorySpreads(Strict):
    """Widths by regime, and the engines whose memory was measured in it.

    Attributes
    ----------
    train, infer
        Widths of training steps, and of inference.
    engines
        Regime -> engines with measured rows; the facts of others were never held against a run.
    """

    schema_version: Literal[1] = Field(default=1, alias="schema")
    train: Widths
    infer: Widths
    engines: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    sources: dict[str, str] = Field(default_factory=dict)
    ranges: dict[str, str] = Field(default_factory=dict, description="Plausible values.")
    fitted: dict[str, str] = Field(default_factory=dict, description="Command, data and coverage of the fit.")

    def widths(self, regime: str) -> Widths:
        """Return the widths of a regime: train or infer."""
        return self.train if regime == "train" else self.infer


@cache
def shipped() -> MemorySpreads:
    """Return the widths of the catalog."""
    return validate(MemorySpreads, read_yaml(catalog.root() / "hardware" / "constants" / "memory.yaml"))
