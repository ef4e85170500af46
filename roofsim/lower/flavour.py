"""Say how the engine's library implements what a model asks for."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from roofsim.records import dataclass, field
from roofsim.spec.engine.schema import Engine, unnamed

if TYPE_CHECKING:
    from roofsim.numeric import Real


#: Attention that runs as several kernels.
SEVERAL_KERNELS: Final = ("unfused", "fused_softmax")


@cache
def fused() -> Engine:
    """Return an engine of default facts, but for fused attention."""
    return unnamed().changed(attention="flash")


@dataclass(frozen=True, kw_only=True)
class Flavour:
    """How the engine's library implements what a model asks for; decided by engine facts and precision.

    Attributes
    ----------
    engine
        The engine as it runs this phase (`in_phase`); see docs/concepts/engines.md.
    training
        Whether the pass is a training step's.
    dropout
        Rate of dropout that replaces the model's own; None: the model's.
    batch_norm_ranks
        Ranks over whose batches batch norms take their statistics.
    """

    engine: Engine = field(default_factory=fused)
    training: bool = True
    dropout: float | None = None
    batch_norm_ranks: Real = 1.0

    @classmethod
    def of(
        cls, *, training: bool = True, dropout: float | None = None, batch_norm_ranks: Real = 1.0, **facts: object
    ) -> Flavour:
        """Return the flavour of an engine of fused attention with other facts, by flat name.

        Raises
        ------
        KeyError
            For a fact that there is not.
        """
        engine = fused().changed(**facts)
        return cls(engine=engine, training=training, dropout=dropout, batch_norm_ranks=batch_norm_ranks)

    @property
    def attention(self) -> str:
        """How attention runs; a kernel of its own for decode steps is a fused one."""
        facts = self.engine.attention
        return "flash" if facts.decode_generation not in (None, *SEVERAL_KERNELS) else facts.implementation
