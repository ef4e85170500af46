"""State the work of ops that use the host: copies between device and host memory, and updates that the host computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import AbstractOp, Kind
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.tensor import Tensor
    from roofsim.numeric import Real


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class HostTransfer(AbstractOp):
    """A copy from the device to its host or back, by a copy engine beside the kernels.

    Attributes
    ----------
    direction
        ``to_host`` or ``from_host``.
    place
        Where the other side lies: ``host``, or another place beyond the device.
    moved
        The tensors that travel, as they arrive; outputs beside them are space that copies under way take. None: the outputs.
    part
        Share of them that travels: a rank that updates a shard sends that alone.
    last
        Whether it runs for the last micro batch of a step only.
    rows
        Rows at random places that the device reads one by one; None: whole tensors.
    """

    kind: ClassVar[Kind] = Kind.HOST_TRANSFER

    direction: str
    place: str
    moved: tuple[Tensor, ...] = ()
    part: Real = 1.0
    last: bool = False
    rows: Real | None = None

    def message(self) -> Real:
        """Bytes that travel."""
        total: Real = 0.0
        for tensor in self.moved or self.outputs:
            total = total + tensor.bytes
        return total * self.part

    def bytes_read(self) -> Real:
        return self.message()

    def bytes_written(self) -> Real:
        return self.message()

    def kernels(self) -> Real:
        return 0.0


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class HostUpdate(AbstractOp):
    """Arithmetic of the host over `elements` parameters: the optimizer's update, or the sum of gradients.

    Attributes
    ----------
    read, written
        Bytes from and to host memory.
    fetched, stored
        Bytes from and to storage, where the state lies there.
    distant
        Those of `read` and `written` that lie in memory behind CXL.
    place
        Where the state lies, or the gradients where the state is in host memory.
    """

    kind: ClassVar[Kind] = Kind.OPTIMIZER

    method: str
    elements: Real
    read: Real
    written: Real
    fetched: Real = 0.0
    stored: Real = 0.0
    distant: Real = 0.0
    place: str = "host"
    flops_per_element: float = 12.0

    def flops(self) -> Real:
        return self.flops_per_element * self.elements

    def bytes_read(self) -> Real:
        return self.read

    def bytes_written(self) -> Real:
        return self.written

    def kernels(self) -> Real:
        return 0.0


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class HostCompute(AbstractOp):
    """Layers whose weights lie on the host and which its processors compute, while the device waits.

    Attributes
    ----------
    read
        Bytes of weights and cache that they read from host memory.
    operations
        FLOPs of one iteration.
    of_experts
        Whether the weights are those of routed experts: many small matrices.
    """

    kind: ClassVar[Kind] = Kind.HOST_TRANSFER

    read: Real
    operations: Real = 0.0
    of_experts: bool = False

    def flops(self) -> Real:
        return self.operations

    def bytes_read(self) -> Real:
        return self.read

    def bytes_written(self) -> Real:
        return 0.0

    def kernels(self) -> Real:
        return 0.0
