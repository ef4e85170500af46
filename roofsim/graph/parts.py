"""Name the parts of a layer that passes ask for: projections, rotations, caches, routing."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Part(StrEnum):
    """What an op is in its layer, said by whoever builds it; what nobody asks for has no part."""

    QUERY = "query"
    KEY = "key"
    VALUE = "value"
    QUERY_KEY_VALUE = "query_key_value"
    QUERY_DOWN = "query_down"
    KEY_VALUE_DOWN = "key_value_down"
    QUERY_KEY_VALUE_DOWN = "query_key_value_down"
    QUERY_UP = "query_up"
    KEY_VALUE_UP = "key_value_up"
    OUTPUT = "output"
    GATE = "gate"
    UP = "up"
    GATE_UP = "gate_up"
    DOWN = "down"
    ROTATION = "rotation"
    ROUTER = "router"
    PERMUTE = "permute"
    """Bringing tokens into the order of their experts."""
    COMBINE = "combine"
    """Bringing what experts return back into the order of tokens, weighted and summed."""

    @classmethod
    def named(cls, leaf: str) -> Part | None:
        """Return the part of a layer that goes by a name; None: no pass asks for it."""
        return cls._value2member_map_.get(leaf)  # type: ignore[return-value]


#: Projections of one input that an engine may hold as one matrix and multiply at once -> the projections that they are.
MERGED: Final = {
    Part.QUERY_KEY_VALUE: (Part.QUERY, Part.KEY, Part.VALUE),
    Part.QUERY_KEY_VALUE_DOWN: (Part.QUERY_DOWN, Part.KEY_VALUE_DOWN),
    Part.GATE_UP: (Part.GATE, Part.UP),
}


def projections_of(part: Part | None) -> tuple[Part, ...]:
    """Return the projections that a product computes: itself, or those that a merged one stands for."""
    return () if part is None else MERGED.get(part, (part,))
