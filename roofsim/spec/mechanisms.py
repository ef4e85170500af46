"""Name what pricing a step takes into account, so that one thing at a time can be switched off to see what it is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, kw_only=True)
class Mechanisms:
    """The mechanisms of a step. All are on, but in an ablation; no scenario can switch them off."""

    protocols: bool = True
    """Links and NICs reach what their constants say; off: datasheet rates at once, without steps, handshakes or startups."""
    shared_nics: bool = True
    """Groups of a node share its NICs; off: every group has all of them to itself."""
    tiled: bool = True
    """Tensor collectives run in tiles beside GEMMs where the engine does so; off: they are fully exposed."""
    hidden: bool = True
    """Data-parallel collectives hide behind arithmetic; off: they are fully exposed."""
    contention: bool = True
    """What hides slows the kernels beside it down; off: it costs nothing."""
    bubble: bool = True
    """Stages of a pipeline wait for one another; off: the slowest is never idle."""
    uneven_stages: bool = True
    """Stages take their own time; off: all take the mean."""
    simulation: bool = True
    """Schedules without an exact closed form run event by event; off: closed forms."""
    sustained: bool = True
    """Long GEMMs are held to their own power; off: to the step's mean power."""
    winograd: bool = True
    """Ordinary units take Winograd's algorithm for 3 x 3 convolutions where it is faster; off: implicit products only."""
    bytes_in_flight: bool = True
    """Simple kernels draw what their compute units can ask of memory; off: as much of any memory."""
    chips: bool = True
    """Chips of one name differ, and ranks wait for the slowest; off: they are identical."""
    noise: bool = True
    """Nodes that meet wait for the slowest of them; off: all take the same time."""
    hashed_flows: bool = True
    """Flows meet on links of networks that hash them; off: all links carry the same."""
    silent: Callable[[Any], bool] | None = None
    """Tells of a collective whether it takes no time; None: all take theirs."""
    idle: Callable[[Any], bool] | None = None
    """Tells of an op whether its kernels take no time; None: all take theirs."""


#: Everything is taken into account.
ALL = Mechanisms()
