"""Describe how far predictions may be off: scales of what makes a run unlike those that were measured, and which those were."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal

from roofsim.schema.base import Field, model_validator
from roofsim.spec import catalog
from roofsim.spec.reading.source import read_yaml
from roofsim.spec.reading.validate import validate
from roofsim.spec.strict import Strict

if TYPE_CHECKING:
    from collections.abc import Mapping

End = Annotated[float, Field(ge=0.0, le=10.0)]


class Term(Strict):
    """One source of error: how far the tenth part of measurements lies beyond, as logarithms of measured over predicted.

    Attributes
    ----------
    below, above
        Of measurements that are smaller, and larger, than predicted, for each unit of what the term counts.
    range
        Plausible values of both.
    counts
        What is counted, and in which unit.
    meaning
        Why predictions are off by it.
    """

    below: End
    above: End
    range: Annotated[tuple[End, End], Field(strict=False)]
    counts: str
    meaning: Annotated[str, Field(min_length=10)]
    source: Annotated[str, Field(min_length=4)]

    @model_validator(mode="after")
    def _plausible(self) -> Term:
        low, high = self.range
        for value in (self.below, self.above):
            if not low <= value <= high:
                raise ValueError(f"{value:g} lies outside of its plausible range, {low:g} to {high:g}")
        return self


class MeasuredRuns(Strict):
    """What stands behind the intervals of a regime.

    Attributes
    ----------
    cards, architectures, engines, families
        Of measured runs, by name; families are those of model files.
    pairs
        ``engine on architecture``.
    formats
        ``number format on architecture``.
    """

    cards: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()


class Intervals(Strict):
    """Terms of times and of memory, and by regime what was measured."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    time: dict[str, Term]
    memory: dict[str, Term]
    measured: dict[str, MeasuredRuns]
    fitted: dict[str, str] = Field(default_factory=dict, description="Command, data and coverage of the fit.")

    def ends(self, kind: Literal["time", "memory"]) -> Mapping[str, tuple[float, float]]:
        """Return below and above of each term."""
        terms = self.time if kind == "time" else self.memory
        return {name: (term.below, term.above) for name, term in terms.items()}


@cache
def shipped() -> Intervals:
    """Return the terms of the catalog."""
    return validate(Intervals, read_yaml(catalog.root() / "hardware" / "constants" / "intervals.yaml"))
