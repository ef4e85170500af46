"""Name the mechanisms of steps on many GPUs, and what a prediction is without each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.base import Phase
from roofsim.graph.ops import BUFFERS, Cast, Copy, Elementwise, parts_of
from roofsim.graph.tensor import Role
from roofsim.records import dataclass
from roofsim.spec.constants.links import shipped_links
from roofsim.spec.mechanisms import Mechanisms

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.calibrate.cases import Case
    from roofsim.graph.base import AbstractOp


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """One thing that a step of several GPUs does, and what the prediction is without it.

    Attributes
    ----------
    name
        What the command line calls the mechanism.
    without
        What is left out, or put in its place, in words.
    page
        DocsPage of docs/mechanisms that explains it.
    touches
        Whether it can move a case at all.
    off
        The switches while it is off.
    """

    name: str
    without: str
    page: str
    touches: Callable[[Case], bool]
    off: Mechanisms


def _without_groups(*groups: str) -> Mechanisms:
    """Return the switches under which collectives of some groups take no time."""
    return Mechanisms(silent=lambda op: op.group_of in groups)


def _accumulates(op: AbstractOp) -> bool:
    """Tell whether a kernel does nothing but add gradients of micro batches up, or widen them for that."""
    return all(_adds_gradient(part) or _widens_gradient(part) for part in parts_of(op))


def _adds_gradient(op: AbstractOp) -> bool:
    return isinstance(op, Elementwise) and any(tensor.root.role is Role.GRADIENT_BUFFER for tensor in op.outputs)


def _widens_gradient(op: AbstractOp) -> bool:
    """Tell whether an op casts the gradient of a parameter where it lies."""
    made = op.outputs[0] if isinstance(op, Cast) else None
    return made is not None and made.base is op.inputs[0] and made.owner.role is Role.PARAMETER


def _carries(op: AbstractOp) -> bool:
    """Tell whether an op copies gathered parameters out of a buffer, or gradients into one."""
    return isinstance(op, Copy) and op.function in BUFFERS


# -- which cases it can move ---------------------------------------------------------------------------------------


def _many(case: Case) -> bool:
    return int(case.scenario["hardware"]["gpus"]) > 1


def _hashed(case: Case) -> bool:
    """Tell whether a case runs over a network that hashes flows over links."""
    system = case.resolve().system
    several = int(case.scenario["hardware"]["gpus"]) > system.gpus_per_node
    return several and shipped_links().network(system.network).flows is not None


def _all(case: Case) -> bool:
    del case
    return True


def _degree(name: str) -> Callable[[Case], bool]:
    return lambda case: int(case.scenario["parallel"].get(name, 1)) > 1


def _replicas(case: Case) -> bool:
    parallel = case.scenario["parallel"]
    inner = [int(parallel.get(name, 1)) for name in ("tensor", "pipeline")]
    return int(case.scenario["hardware"]["gpus"]) > inner[0] * inner[1]


def _fully_sharded(case: Case) -> bool:
    return _replicas(case) and case.scenario["parallel"].get("sharding") == "full"


def _recomputed_tensor(case: Case) -> bool:
    return _degree("tensor")(case) and case.scenario["workload"].get("recompute") == "full"


def _accumulated(case: Case) -> bool:
    return "+fused-gradients" not in str(case.scenario["workload"]["engine"])


ABLATIONS: Final = (
    Ablation(
        name="protocols", page="collectives", touches=_many,
        without="links and NICs at datasheet rates; no steps, handshakes or startup",
        off=Mechanisms(protocols=False),
    ),
    Ablation(
        name="shared-nics", page="placement", touches=_replicas, without="every group has all NICs of its nodes to itself",
        off=Mechanisms(shared_nics=False),
    ),
    Ablation(
        name="tensor", page="tensor", touches=_degree("tensor"), without="no collectives of tensor groups",
        off=_without_groups("tensor"),
    ),
    Ablation(
        name="tiled", page="tensor", touches=_degree("tensor"), without="overlapped tensor collectives fully exposed",
        off=Mechanisms(tiled=False),
    ),
    Ablation(
        name="recomputed-collectives", page="recomputation", touches=_recomputed_tensor,
        without="recomputation repeats no collectives",
        off=Mechanisms(silent=lambda op: op.phase is Phase.RECOMPUTE and op.group_of == "tensor"),
    ),
    Ablation(
        name="context", page="context", touches=_degree("context"), without="no collectives of context groups",
        off=_without_groups("context", "context_ring"),
    ),
    Ablation(
        name="bubble", page="pipeline", touches=_degree("pipeline"), without="the slowest stage is never idle",
        off=Mechanisms(bubble=False),
    ),
    Ablation(
        name="uneven-stages", page="pipeline", touches=_degree("pipeline"), without="all stages take their mean time",
        off=Mechanisms(uneven_stages=False),
    ),
    Ablation(
        name="simulation", page="pipeline", touches=_degree("virtual_stages"),
        without="closed forms instead of event-by-event schedules", off=Mechanisms(simulation=False),
    ),
    Ablation(
        name="messages", page="pipeline", touches=_degree("pipeline"), without="no messages between stages",
        off=_without_groups("pipeline"),
    ),
    Ablation(
        name="data", page="data", touches=_replicas, without="no collectives of data-parallel groups",
        off=_without_groups("data", "replica"),
    ),
    Ablation(
        name="hidden", page="data", touches=_replicas, without="data-parallel collectives fully exposed, no overlap",
        off=Mechanisms(hidden=False),
    ),
    Ablation(
        name="contention", page="sharding", touches=_replicas, without="hidden collectives cost nothing",
        off=Mechanisms(contention=False),
    ),
    Ablation(
        name="copies", page="sharding", touches=_fully_sharded, without="no copies into and out of buffers, no casts",
        off=Mechanisms(idle=_carries),
    ),
    Ablation(
        name="exchange", page="experts", touches=_degree("expert"), without="no all-to-all of expert groups",
        off=_without_groups("expert", "expert_tensor"),
    ),
    Ablation(
        name="accumulation", page="accumulation", touches=_accumulated, without="adding gradients takes no time",
        off=Mechanisms(idle=_accumulates),
    ),
    Ablation(
        name="update", page="accumulation", touches=_all, without="the optimizer takes no time",
        off=Mechanisms(idle=lambda op: op.phase is Phase.OPTIMIZER),
    ),
    Ablation(
        name="sustained", page="power", touches=_all, without="long GEMMs held to the step's mean power, not to their own",
        off=Mechanisms(sustained=False),
    ),
    Ablation(
        name="chips", page="stragglers", touches=_many, without="chips of one name are identical",
        off=Mechanisms(chips=False),
    ),
    Ablation(
        name="noise", page="stragglers", touches=_many, without="nodes take the same time for every layer",
        off=Mechanisms(noise=False),
    ),
    Ablation(
        name="flows", page="collectives", touches=_hashed, without="no flows meet on links of networks that hash them",
        off=Mechanisms(hashed_flows=False),
    ),
    Ablation(
        name="bytes-in-flight", page="streams", touches=_all, without="simple kernels draw as much of any memory",
        off=Mechanisms(bytes_in_flight=False),
    ),
)  # fmt: skip
