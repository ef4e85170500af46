"""Count what updates have in common, and make those that run beside the optimizer's own: averages, the outer step of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.base import Phase
from roofsim.graph.ops import OptimizerUpdate
from roofsim.graph.tensor import Role, Tensor
from roofsim.numeric import Real, ceil, maximum
from roofsim.passes.optimizer.methods import METHODS

if TYPE_CHECKING:
    from roofsim.graph.tensor import DType

#: Elements that one multi-tensor launch covers: 320 blocks of 65,536 (PyTorch, ATen/native/cuda/MultiTensorApply.cuh).
ELEMENTS_PER_LAUNCH: Final = 320.0 * 65536.0
#: Tensors that one multi-tensor launch of three lists covers (same file: depth 3 takes 48).
TENSORS_PER_LAUNCH: Final = 48.0


def update_beside(
    method: str, leaf: str, types: tuple[DType, DType], group: dict[Tensor, Real], share: Real = 1.0
) -> OptimizerUpdate:
    """Return an update that runs over all trained parameters beside the optimizer's: a row of `METHODS`, many tensors a kernel.

    Parameters
    ----------
    types
        Of the parameters as the forward pass has them, and of what is updated: masters, where there are any.
    group
        Parameters, and how many copies of each there are.
    share
        Share of the steps in which it runs.
    """
    row, (dtype, stored) = METHODS[method, "foreach"], types
    elements, tensors, _ = extent(group)
    states = tuple(
        Tensor(f"{leaf}.state{index}", (elements,), stored, Role.OPTIMIZER_STATE) for index in range(row.states)
    )
    made = (Tensor(f"{leaf}.temporary", (row.temporaries * elements,), stored, Role.TEMPORARY),)
    return OptimizerUpdate(
        name=leaf,
        phase=Phase.OPTIMIZER,
        inputs=states,
        outputs=made if row.temporaries else (),
        share=share,
        method=method,
        implementation="foreach",
        elements=elements,
        read=elements * (row.parameter_reads + row.gradient_reads + row.state_reads) * stored.itemsize,
        written=elements * (row.parameter_writes + row.state_writes) * stored.itemsize,
        launches=row.kernels * multi_tensor(elements, tensors),
        flops_per_element=row.flops,
        stored=dtype,
        listed=row.kernels * tensors,
    )


def multi_tensor(elements: Real, tensors: Real) -> Real:
    """Return the launches of one multi-tensor kernel over all tensors."""
    return maximum(ceil(elements / ELEMENTS_PER_LAUNCH), ceil(tensors / TENSORS_PER_LAUNCH))


def by_type(trained: dict[Tensor, Real]) -> dict[DType, dict[Tensor, Real]]:
    """Return parameters, and how many copies there are of each, by their type."""
    groups: dict[DType, dict[Tensor, Real]] = {}
    for tensor, copies in trained.items():
        groups.setdefault(tensor.dtype, {})[tensor] = copies
    return groups


def extent(group: dict[Tensor, Real]) -> tuple[Real, Real, Real]:
    """Return elements, tensors, and the elements of the largest tensor."""
    elements: Real = 0.0
    tensors: Real = 0.0
    largest: Real = 0.0
    for tensor, copies in group.items():
        elements = elements + tensor.numel * copies
        tensors = tensors + copies
        largest = maximum(largest, tensor.numel)
    return elements, tensors, largest
