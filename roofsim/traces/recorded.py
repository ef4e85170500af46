"""Hold what a profiler recorded of one step: its kernels, who launched them, when, and what the host waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from roofsim.lower.recorded.call import RecordedCall

#: What the device does: arithmetic, a message between ranks, a copy to or from the host, a copy or fill on the device.
KERNEL: Final = "kernel"
COLLECTIVE: Final = "collective"
TRANSFER: Final = "transfer"
COPY: Final = "copy"
#: What roofsim's own traces hold beside: that a rank waits.
WAIT: Final = "wait"


@dataclass(frozen=True, kw_only=True)
class RecordedMessage:
    """What the profiler says of a collective.

    Attributes
    ----------
    function
        ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``all_to_all``, ``broadcast``, ``send_recv``; empty where unknown.
    size
        Bytes of the whole message as `roofsim.graph.ops.Collective.message` counts them; None where unknown.
    ranks
        Ranks of its group; None where unknown.
    stride
        Distance between neighbours of the group among all ranks; None where unknown.
    """

    function: str = ""
    size: float | None = None
    ranks: int | None = None
    stride: int | None = None


@dataclass(frozen=True, kw_only=True)
class RecordedKernel:
    """One piece of work on a stream of the device.

    Attributes
    ----------
    sort
        `KERNEL`, `COLLECTIVE`, `TRANSFER`, `COPY` or `WAIT`.
    start, seconds
        When it began, in seconds of the trace's step, and how long it took.
    launched
        When the host began the call that launched it; None where the trace does not say.
    callers
        The operators and annotations around that call, outermost first.
    call
        Number of the innermost operator's call, which several kernels may share; 0 where the trace does not say.
    module
        Path of the module that it belongs to; of a backward kernel that of its forward.
    phase
        ``forward``, ``backward`` or ``optimizer``; empty where the trace does not say.
    dims
        Dimensions of the inputs of its operator.
    grid
        Blocks of threads that it was launched with; 0 where unknown.
    moved
        Bytes of a copy; 0 of other work.
    calls
        The calls of operators around its launch with their inputs, innermost first, each with its number.
    facts
        What else the trace says of it: of roofsim's own traces the op that it is.
    """

    name: str
    sort: str
    start: float
    seconds: float
    stream: str
    launched: float | None = None
    callers: tuple[str, ...] = ()
    call: int = 0
    module: str = ""
    phase: str = ""
    dims: tuple[tuple[int, ...], ...] = ()
    grid: int = 0
    moved: float = 0.0
    message: RecordedMessage | None = None
    calls: tuple[tuple[int, RecordedCall], ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    place: int = 0
    """Where its event stands in the file, counted from 0: what a changed copy of the file looks it up by."""

    @property
    def end(self) -> float:
        """Seconds at which it ends."""
        return self.start + self.seconds

    @property
    def operator(self) -> str:
        """The innermost operator around its launch; empty where the trace does not say."""
        return self.callers[-1] if self.callers else ""


@dataclass(frozen=True, kw_only=True)
class HostWait:
    """A call in which the host waited for the device, in seconds of the trace's step."""

    name: str
    start: float
    seconds: float

    @property
    def end(self) -> float:
        """Seconds at which the host goes on."""
        return self.start + self.seconds


@dataclass(frozen=True, kw_only=True)
class RecordedStep:
    """One step of a trace.

    Attributes
    ----------
    form
        What wrote the file: ``kineto``, ``roofsim``, ``nsight`` or ``rocprof``.
    name
        Which step it is; empty where the trace marks none.
    seconds
        How long it took.
    steps
        Seconds of every complete step of the trace, of which this one is the median.
    kernels
        In the order in which they began.
    card
        What the trace calls the device; empty where it does not say.
    units
        Its streaming multiprocessors; 0 where unknown.
    ranks
        Ranks of the job; 0 where unknown.
    host
        Seconds from the host's mark of this step to that of the next; 0 where there are none.
    offset
        Microseconds of the file's clock at which the step begins.
    """

    source: str
    form: str
    name: str
    seconds: float
    steps: tuple[float, ...]
    kernels: tuple[RecordedKernel, ...]
    waits: tuple[HostWait, ...] = ()
    card: str = ""
    units: int = 0
    ranks: int = 0
    host: float = 0.0
    offset: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def busy(self) -> float:
        """Seconds of all its device work, streams added up."""
        return sum(one.seconds for one in self.kernels if one.sort != WAIT)
