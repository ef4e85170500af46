"""The bases of an engine's parts: strict models, and groups of facts that may also be written without their group."""

from __future__ import annotations

from roofsim.records import dataclass
from roofsim.schema.base import BaseModel, ConfigDict


class Strict(BaseModel):
    """Refuse unknown keys and values that would have to be converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=(), allow_inf_nan=False)


class Facts(Strict):
    """A group of facts of an engine."""


@dataclass(frozen=True)
class Flat:
    """The name of a fact where it is written without its group; of most it is the field's own."""

    name: str
