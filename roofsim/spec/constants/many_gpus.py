"""Describe how far steps of several GPUs may be off: half widths of 80 % intervals, with where they come from."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

from roofsim.schema.base import Field
from roofsim.spec import catalog
from roofsim.spec.reading.source import read_yaml
from roofsim.spec.reading.validate import validate
from roofsim.spec.strict import Strict

Width = Annotated[float, Field(gt=0.0, le=1.0)]


class ManyGpus(Strict):
    """Half widths of the logarithm of a step of several GPUs; 80 % of measured ones lie within.

    Attributes
    ----------
    sharded
        Of layouts that shard or replicate only (FSDP, ZeRO, DDP).
    model_parallel
        Of layouts with tensor, pipeline, context or expert parallelism.
    gpus, engines
        Cards and engines whose steps stand behind them.
    """

    schema_version: Literal[1] = Field(default=1, alias="schema")
    sharded: Width
    model_parallel: Width
    gpus: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    sources: dict[str, str] = Field(default_factory=dict)
    fitted: dict[str, str] = Field(default_factory=dict, description="Command, data and coverage of the fit.")


@cache
def shipped() -> ManyGpus:
    """Return the widths of the catalog."""
    return validate(ManyGpus, read_yaml(catalog.root() / "hardware" / "constants" / "many_gpus.yaml"))
