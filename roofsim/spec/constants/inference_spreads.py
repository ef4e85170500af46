"""Describe how far passes of inference may be off: half widths of 80 % intervals by regime, with where they come from."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

from roofsim.schema.base import Field
from roofsim.spec import catalog
from roofsim.spec.reading.source import read_yaml
from roofsim.spec.reading.validate import validate
from roofsim.spec.strict import Strict

Width = Annotated[float, Field(gt=0.0, le=3.0)]
#: What is timed: a decode step, a prefill, both (a static batch), a pass of another network, a diffusion pipeline.
Regime = Literal["decode", "prefill", "generate", "forward", "pipeline"]


class InferenceSpreads(Strict):
    """Half widths of the logarithm of a time; 80 % of measured ones lie within.

    Attributes
    ----------
    one_gpu, many_gpus
        By regime, over all engines.
    engines
        The same on one GPU by engine, of those with rows enough.
    architectures
        GPU architectures of the rows.
    """

    schema_version: Literal[1] = Field(default=1, alias="schema")
    one_gpu: dict[Regime, Width]
    many_gpus: dict[Regime, Width] = Field(default_factory=dict)
    engines: dict[str, dict[Regime, Width]] = Field(default_factory=dict)
    architectures: tuple[str, ...] = ()
    sources: dict[str, str] = Field(default_factory=dict)
    fitted: dict[str, str] = Field(default_factory=dict, description="Command, data and coverage of the fit.")

    def width(self, engine: str, regime: Regime, *, many: bool) -> float:
        """Return the half width of an engine's regime."""
        single = self.engines.get(engine, {}).get(regime, self.one_gpu[regime])
        return max(single, self.many_gpus.get(regime, single)) if many else single


@cache
def shipped() -> InferenceSpreads:
    """Return the widths of the catalog."""
    return validate(InferenceSpreads, read_yaml(catalog.root() / "hardware" / "constants" / "inference_spreads.yaml"))
