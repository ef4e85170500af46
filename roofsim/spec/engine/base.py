"""The bases of an engine's parts: strict models, and groups of facts that may also be written without their group."""

from __future__ import annotations

from roofsim.records import dataclass
from roofsim.spec.strict import Strict


class Facts(Strict):
    """A group of facts of an engine."""


@dataclass(frozen=True)
class Flat:
    """The name of a fact where it is written without its group; of most it is the field's own."""

    name: str
