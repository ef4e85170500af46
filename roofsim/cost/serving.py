"""Say which kernels an engine runs in inference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.spec.engine.schema import Engine


@dataclass(frozen=True, kw_only=True)
class InferencePass:
    """An engine whose kernels run in a pass of inference.

    Attributes
    ----------
    engine
        The engine as it runs this phase on this card (`roofsim.spec.engine.phase.in_phase`).
    decodes
        Whether the pass adds one token per sequence.
    """

    engine: Engine
    decodes: bool = False
