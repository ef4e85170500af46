"""The base of every schema of a file or a scenario: nothing unknown, nothing converted, nothing changed afterwards."""

from __future__ import annotations

from roofsim.schema.base import BaseModel, ConfigDict


class Strict(BaseModel):
    """Refuse unknown keys, values that would have to be converted, and numbers that are not finite."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        protected_namespaces=(),
        arbitrary_types_allowed=True,
    )
