"""Switch one mechanism of many GPUs off, to see what it is worth: a table of what is replaced by what."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.cost.links.communication import Messages, Traffic
from roofsim.cost.pricing import PricedGraph
from roofsim.graph.base import Phase
from roofsim.graph.ops import Collective, Copy
from roofsim.records import dataclass, replace
from roofsim.schedule.pipeline.makespan import closed_form
from roofsim.spec.constants.physics import Physics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from roofsim.cost.links.collectives import Fabric
    from roofsim.graph.base import AbstractOp
    from roofsim.numeric import Real
    from roofsim.schedule.pipeline.protocol import PipelineSchedule, StageTimes
    from roofsim_evidence.cases import Case

#: (module, dotted name in it, what stands there instead; a function of what stood there, if `wraps`).
Swap = tuple[str, str, Any]
#: Time of a startup that is left out, where a bandwidth or a duration must be positive.
_NOTHING: Final = 1e-12
_OVERLAP: Final = "roofsim.schedule.overlap"
_RANKS: Final = "roofsim.schedule.ranks"


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """One thing that a step of several GPUs does, and what the prediction is without it.

    Attributes
    ----------
    name
        What the command line calls it.
    without
        What is left out, or put in its place, in words.
    page
        Page of docs/mechanisms that explains it.
    touches
        Whether it can move a case at all.
    swaps
        What is replaced while it is off.
    """

    name: str
    without: str
    page: str
    touches: Callable[[Case], bool]
    swaps: tuple[Swap, ...]

    @contextmanager
    def off(self) -> Iterator[None]:
        """Predict without it inside the context."""
        before: list[tuple[Any, str, Any]] = []
        try:
            for module, path, instead in self.swaps:
                owner: Any = import_module(module)
                *parents, name = path.split(".")
                for parent in parents:
                    owner = getattr(owner, parent)
                before.append((owner, name, getattr(owner, name)))
                setattr(owner, name, instead)
            yield
        finally:
            for owner, name, old in reversed(before):
                setattr(owner, name, old)


# -- what is replaced by what --------------------------------------------------------------------------------------

_constant_of: Final = Physics.__getitem__


def _constants(**values: float) -> Swap:
    """Put other values in the place of physical constants, plausible or not."""

    def constant(self: Physics, name: str) -> float:
        return values[name] if name in values else _constant_of(self, name)

    return "roofsim.spec.constants.physics", "Physics.__getitem__", constant


_remembered: Final = Messages._remembered
_fabric_of: Final = import_module("roofsim.cost.links.fabric").fabric_of
_stage_times: Final = import_module(_RANKS).stage_times
_prepare: Final = PricedGraph.__init__


def _silent(left_out: Callable[[Collective], bool]) -> Swap:
    """Return the swap that prices some collectives at nothing."""

    def remembered(self: Messages, op: Collective, *rest: Any) -> Traffic:
        return Traffic() if left_out(op) else _remembered(self, op, *rest)

    return ("roofsim.cost.links.communication", "Messages._remembered", remembered)


def _of_groups(*groups: str) -> Swap:
    return _silent(lambda op: op.group_of in groups)


def _free(left_out: Callable[[AbstractOp], bool]) -> Swap:
    """Return the swap that runs some kernels in no time."""

    def prepare(self: PricedGraph, *args: Any, **more: Any) -> None:
        _prepare(self, *args, **more)
        self.counts = [0.0 if left_out(op) else n for op, n in zip(self.graph.ops, self.counts, strict=True)]

    return ("roofsim.cost.pricing", "PricedGraph.__init__", prepare)


def _accumulates(op: AbstractOp) -> bool:
    return ".accumulate." in op.name or ".widen." in op.name


def _carries(op: AbstractOp) -> bool:
    """Tell whether an op copies gathered parameters out of a buffer, or gradients into one."""
    return isinstance(op, Copy) and op.name.startswith(("gather.", "data.copy", "replica.copy"))


def _slowest_alone(schedule: PipelineSchedule, stages: list[StageTimes], micro_batches: Real, *_: Real) -> Real:
    """Return the work of the slowest stage, as if nobody waited for anybody."""
    del schedule
    found: Real = np.max([one.both for one in stages]) * micro_batches
    return found


def _even(*args: Any) -> list[StageTimes]:
    """Return stages that all take the mean of them."""
    stages = _stage_times(*args)
    number = sum(one.positions for one in stages)
    forward = sum(one.forward * one.positions for one in stages) / number
    backward = sum(one.backward * one.positions for one in stages) / number
    return [replace(one, forward=forward, backward=backward) for one in stages]


def _own_network(fabric: Fabric, members: Real, groups: Real | None) -> Real:
    """Return all NICs of a node, as if no other group used them."""
    del members, groups
    return fabric.network_bandwidth


def _datasheet(*args: Any, **more: Any) -> Fabric:
    """Return links that reach their datasheet at once: rings without steps, handshakes, startups or copies."""
    found: Fabric = _fabric_of(*args, **more)
    nothing: dict[str, float] = dict.fromkeys(("launch", "step", "exchange_step"), _NOTHING)
    nothing |= dict.fromkeys(("handshake", "handshake_step", "fill", "fill_step", "exchange_handshake"), 0.0)
    tiers = tuple(
        replace(tier, efficiency=1.0, step=_NOTHING, constants=tier.constants.model_copy(update=nothing), switch=None)
        for tier in found.tiers
    )
    network = {"efficiency": 1.0, "step": _NOTHING, "fill": 0.0, "point": 0.0, "point_efficiency": 1.0}
    shared = {"own_copy": {}, "exchange_efficiency": 1.0}
    return replace(
        found, tiers=tiers, network=found.network.model_copy(update=network),
        shared=found.shared.model_copy(update=shared),
    )  # fmt: skip


# -- which cases it can move ---------------------------------------------------------------------------------------


def _many(case: Case) -> bool:
    return int(case.scenario["hardware"]["gpus"]) > 1


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
    facts: dict[str, object] = case.scenario["workload"].get("engine_facts", {})
    return facts.get("gradient_accumulation") != "fused"


MECHANISMS: Final = (
    Mechanism(
        name="protocols", page="collectives", touches=_many,
        without="links and NICs at datasheet rates; no steps, handshakes or startup",
        swaps=(("roofsim.cost.links.fabric", "fabric_of", _datasheet), ("roofsim.cost.links.collectives", "fabric_of", _datasheet)),
    ),
    Mechanism(
        name="shared-nics", page="placement", touches=_replicas, without="every group has all NICs of its nodes to itself",
        swaps=(("roofsim.cost.links.collectives", "_nic_share", _own_network),),
    ),
    Mechanism(
        name="tensor", page="tensor", touches=_degree("tensor"), without="no collectives of tensor groups",
        swaps=(_of_groups("tensor"),),
    ),
    Mechanism(
        name="tiled", page="tensor", touches=_degree("tensor"), without="overlapped tensor collectives fully exposed",
        swaps=(_constants(tiled_communication=1.0),),
    ),
    Mechanism(
        name="recomputed-collectives", page="recomputation", touches=_recomputed_tensor,
        without="recomputation repeats no collectives",
        swaps=(_silent(lambda op: op.phase is Phase.RECOMPUTE and op.group_of == "tensor"),),
    ),
    Mechanism(
        name="context", page="context", touches=_degree("context"), without="no collectives of context groups",
        swaps=(_of_groups("context", "context_ring"),),
    ),
    Mechanism(
        name="bubble", page="pipeline", touches=_degree("pipeline"), without="the slowest stage is never idle",
        swaps=((_RANKS, "makespan", _slowest_alone),),
    ),
    Mechanism(
        name="uneven-stages", page="pipeline", touches=_degree("pipeline"), without="all stages take their mean time",
        swaps=((_RANKS, "stage_times", _even),),
    ),
    Mechanism(
        name="simulation", page="pipeline", touches=_degree("virtual_stages"),
        without="closed forms instead of event-by-event schedules", swaps=((_RANKS, "makespan", closed_form),),
    ),
    Mechanism(
        name="messages", page="pipeline", touches=_degree("pipeline"), without="no messages between stages",
        swaps=(_of_groups("pipeline"),),
    ),
    Mechanism(
        name="data", page="data", touches=_replicas, without="no collectives of data-parallel groups",
        swaps=(_of_groups("data", "replica"),),
    ),
    Mechanism(
        name="hidden", page="data", touches=_replicas, without="data-parallel collectives fully exposed, no overlap",
        swaps=((_OVERLAP, "_behind", lambda traffic, *_, **__: traffic),),
    ),
    Mechanism(
        name="contention", page="sharding", touches=_replicas, without="hidden collectives cost nothing",
        swaps=(_constants(contention=0.0, occupied_units=0.0),),
    ),
    Mechanism(
        name="copies", page="sharding", touches=_fully_sharded, without="no copies into and out of buffers, no casts",
        swaps=(_free(_carries),),
    ),
    Mechanism(
        name="exchange", page="experts", touches=_degree("expert"), without="no all-to-all of expert groups",
        swaps=(_of_groups("expert", "expert_tensor"),),
    ),
    Mechanism(
        name="accumulation", page="accumulation", touches=_accumulated, without="adding gradients takes no time",
        swaps=(_free(_accumulates),),
    ),
    Mechanism(
        name="update", page="accumulation", touches=_all, without="the optimizer takes no time",
        swaps=(_free(lambda op: op.phase is Phase.OPTIMIZER),),
    ),
    Mechanism(
        name="sustained", page="power", touches=_all, without="long GEMMs held to the step's mean power, not to their own",
        swaps=(("roofsim.cost.pricing", "window", lambda *_: 0.0),),
    ),
    Mechanism(
        name="chips", page="stragglers", touches=_many, without="chips of one name are identical",
        swaps=(_constants(chip_spread=0.0),),
    ),
)  # fmt: skip
