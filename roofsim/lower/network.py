"""Say what one network of a model of several networks is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real


@dataclass(frozen=True, kw_only=True)
class Network:
    """One network of a model of several, with a graph of its own.

    Attributes
    ----------
    times
        How often it runs per step.
    narrow
        Whether formats of narrow products are meant for it.
    wide
        Whether it computes in the wider type that `Traits.decodes_images_wide` asks for.
    grows
        Whether its maps grow from op to op, so that freed blocks are too small for what comes next.
    """

    name: str
    graph: OpGraph
    times: Real
    narrow: bool = False
    wide: bool = False
    upsamples: bool = False
