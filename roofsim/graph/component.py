"""Say which part of a model an op or a tensor belongs to: the tree of components that a builder opens.

What a later stage asks of an op ("is it a query projection?", "does it belong to the loss?") is answered here, never by a
name: names are for people.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterator


class Purpose(StrEnum):
    """What a component is for. A scope that a builder opens by one of these has its purpose, and is called like it.

    Only those are listed that some pass, price or rule asks for; other components have none.
    """

    # Tables.
    EMBEDDING = "embedding"
    POSITIONS = "positions"
    SEGMENTS = "segments"
    # Attention and what stands in its place.
    SELF_ATTENTION = "self_attention"
    CROSS_ATTENTION = "cross_attention"
    ATTENTION = "attention"
    """What runs between the projections: scores, softmax, context."""
    DELTA_NET = "delta_net"
    MIXER = "mixer"
    FUSED_SCAN = "fused_scan"
    """What a mixer's function computes at once: while training, it keeps little and runs the rest again."""
    MADE_AGAIN = "made_again"
    """What a mixer's function keeps nothing of: its backward pass makes it again."""
    ROTATE_QUERY = "rotate_query"
    ROTATE_KEY = "rotate_key"
    # Linear layers.
    QUERY = "query"
    KEY = "key"
    VALUE = "value"
    QUERY_KEY_VALUE = "query_key_value"
    QUERY_DOWN = "query_down"
    QUERY_UP = "query_up"
    KEY_VALUE_DOWN = "key_value_down"
    QUERY_KEY_VALUE_DOWN = "query_key_value_down"
    KEY_VALUE_UP = "key_value_up"
    OUTPUT = "output"
    TEXT_OUTPUT = "text_output"
    PROJECTION = "projection"
    GATE = "gate"
    UP = "up"
    GATE_UP = "gate_up"
    DOWN = "down"
    PROJECT_IN = "project_in"
    PROJECT_X = "project_x"
    PROJECT_STEP = "project_step"
    PROJECT_OUT = "project_out"
    IN_QKVZ = "in_qkvz"
    IN_BA = "in_ba"
    # Feed-forward layers and mixtures of experts.
    MLP = "mlp"
    EXPERTS = "experts"
    SHARED_EXPERTS = "shared_experts"
    SHARED_EXPERT_GATE = "gate_of_all"
    ROUTER = "router"
    PERMUTE = "permute"
    """The way of tokens into the order of experts."""
    ROWS = "rows"
    """The copy of each token's row on that way."""
    COMBINE = "combine"
    """The way back, and the weighted sum."""
    # The end of a model.
    HEAD = "head"
    LOGITS = "logits"
    CLASSIFIER = "classifier"
    LOSS = "loss"
    METRICS = "metrics"
    # What passes put beside layers.
    ADAPTER = "lora"


#: Matrices that stand for several projections, which an engine (or a model) merged.
MERGED: Final[dict[Purpose | None, tuple[Purpose, ...]]] = {
    Purpose.QUERY_KEY_VALUE: (Purpose.QUERY, Purpose.KEY, Purpose.VALUE),
    Purpose.QUERY_KEY_VALUE_DOWN: (Purpose.QUERY_DOWN, Purpose.KEY_VALUE_DOWN),
    Purpose.GATE_UP: (Purpose.GATE, Purpose.UP),
}


@dataclass(frozen=True, eq=False, slots=True)
class Component:
    """A component of a model, inside another one or at the top. Identity is equality.

    Attributes
    ----------
    name
        What people read; nothing depends on it.
    purpose
        What it is for; None: nothing that anybody asks for.
    parent
        What it is inside of; None: the model.
    """

    name: str
    purpose: Purpose | None = None
    parent: Component | None = None
    label: str = field(init=False)
    """The names from the outermost component to its own, with dots between them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", f"{self.name}" if self.parent is None else f"{self.parent.label}.{self.name}")

    def chain(self) -> Iterator[Component]:
        """Iterate over the component and all that it is inside of, innermost first."""
        current: Component | None = self
        while current is not None:
            yield current
            current = current.parent

    def within(self, *purposes: Purpose) -> bool:
        """Tell whether it, or something that it is inside of, is for one of some purposes."""
        return any(one.purpose in purposes for one in self.chain())

    @property
    def path(self) -> tuple[Purpose, ...]:
        """The purposes from the outermost to its own; components without one are left out."""
        return tuple(one.purpose for one in self.chain() if one.purpose is not None)[::-1]

    @property
    def root(self) -> Component:
        """The outermost component."""
        *_, last = self.chain()
        return last

    def inside(self, name: str, purpose: Purpose | None = None) -> Component:
        """Return a new component inside of this one."""
        return Component(name, purpose, self)

    def __str__(self) -> str:
        return self.label
