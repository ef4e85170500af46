"""Price one layer of a model on its ranks, before anything is known of pipelines, replicas and schedules."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.cost.host.copies import Flow, host_flows, host_path
from roofsim.cost.scales import Scales
from roofsim.errors import RoofsimError
from roofsim.evaluate import priced_stages, stage_costs, unpriced_of
from roofsim.graph.base import Phase
from roofsim.memory.in_flight import BESIDE
from roofsim.numeric import maximum
from roofsim.points import Diverged, points
from roofsim.records import replace
from roofsim.search.pieces import NOT_FOR_ARRAYS
from roofsim.search.stacking import alike, taken, varying
from roofsim.spec.scenario.layout import expert_tensor_of
from roofsim.spec.scenario.offload import Offload
from roofsim.spec.scenario.workload import RecomputePlan
from roofsim.structures import profile_of, program_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from roofsim.cost.host.copies import Flows
    from roofsim.cost.pricing import PassCost
    from roofsim.graph.opgraph import OpGraph
    from roofsim.memory.profile import MemoryProfile
    from roofsim.schedule.overlap import Exposed
    from roofsim.spec.resolve import Resolved

    Array = NDArray[np.float64]

#: What a layer takes of a rank, in seconds at full clock: kernels but for long products, these by the power that they draw, seconds
#: in which the card may draw the energy of the rest, communication that shows, the host; of the update the first and the third; and
#: seconds in which the card may draw the energy of all but the update.
PARTS: Final = ("short", "held", "drawn", "links", "host", "update", "energy")
#: What of these the end of the model takes, from its last layer on: head and loss, forward and backward.
HEAD: Final = ("short", "held", "drawn", "host")
#: What of the state it holds all the time, in bytes.
STATES: Final = ("parameters", "gradients", "optimizer_state")
#: What it holds when its forward pass has ended, in bytes: the activations that it saved, and which of them are copies of weights.
MEMORY: Final = (*STATES, "saved", "copies")
#: What the first stage of a pipeline, and one in the middle, hold, in bytes, of a layer and beside the layers: activations when the
#: forward pass of a micro batch has ended; how much more of activations and temporary tensors there is at the fullest moment of a
#: pass; and the state.
HELD: Final = ("saved", "above", *STATES)
STAGES: Final = ("first", "middle")
#: What it keeps the host busy, in seconds, where one GPU has the host to itself: the link in each direction, its memory and its
#: storage in a micro batch; those of the update, and the link while updated weights return.
HOST: Final = (
    *(f"{what}_{phase}" for phase in ("forward", "backward") for what in ("out", "back", "memory", "storage")),
    *("work_memory", "work_storage", "returned"),
)

#: Layers of the two models whose difference is one layer; a single one is no block that repeats.
DEPTHS: Final = (2.0, 3.0)
#: Stages of the pipelines in which `HELD` is looked for: the first, one in the middle and the last.
_LOOKED: Final = 3


def priced_layers(resolved: Resolved, chosen: NDArray[np.int64]) -> dict[int, dict[str, tuple[float, float]]]:
    """Return what layers take on the ranks of some layouts, each on its own: place -> part -> (one layer, the ends of the model).

    Layouts whose layer cannot be priced alone are left out.
    """
    return _layers(resolved, chosen, _parts_of, (*PARTS, *map(head_part, HEAD), *MEMORY))


def staged_layers(resolved: Resolved, chosen: NDArray[np.int64]) -> dict[int, dict[str, tuple[float, float]]]:
    """Return `HELD` of stages of small pipelines on the ranks of some layouts; as `priced_layers`."""
    return _layers(resolved, chosen, _held_by_stages, STAGE_PARTS)


def stage_part(stage: str, name: str) -> str:
    """Return the name of a part of `HELD` of one of `STAGES` among those of layers."""
    return f"{stage}_{name}"


STAGE_PARTS: Final = tuple(stage_part(stage, name) for stage in STAGES for name in HELD)


def _held_by_stages(resolved: Resolved, some: NDArray[np.int64]) -> dict[str, Any]:
    """Return `HELD` of stages of each of `DEPTHS` on the ranks of some layouts."""
    stages = program_of(_alone(resolved, some, _LOOKED)).stages
    if len(stages) != _LOOKED:
        raise RoofsimError("stages that are alike")
    counted = isinstance(
        resolved.workload.recompute, RecomputePlan
    )  # how many layers of a stage save less is not known
    parts: dict[str, Any] = {}
    for where, stage in zip(STAGES, stages, strict=False):
        profile = profile_of(stage.graph)
        saved = profile.forward_end["activations"]
        fullest = [profile.phase_live[phase] for phase in BESIDE if phase in profile.phase_live]
        above = reduce(maximum, [live["activations"] + live["temporary"] - saved for live in fullest])
        held = {name: profile.forward_end[name] for name in STATES}
        held |= {"saved": 0.0, "above": 0.0} if counted else {"saved": saved, "above": above}
        parts |= {stage_part(where, name): value for name, value in held.items()}
    return parts


def head_part(name: str) -> str:
    """Return the name of a part of `HEAD` among those of layers."""
    return f"head_{name}"


def host_layers(
    resolved: Resolved, chosen: NDArray[np.int64], offload: Offload
) -> dict[int, dict[str, tuple[float, float]]]:
    """Return what layers take of a host, and what they hold, with some parts of the state off the device; as `priced_layers`."""

    def parts(resolved: Resolved, some: NDArray[np.int64]) -> dict[str, Any]:
        alone = _alone(resolved, some)
        parallel = alone.parallel.model_copy(update={"offload": offload})
        held = unpriced_of(replace(alone, parallel=parallel))
        path = replace(host_path(alone.system, alone.gpu, 1.0, 1.0, alone.constants.physics), latency=0.0)
        moved, memory = _moved(host_flows(held.program.stages[0].graph, path)), _held(held.profiles[0])
        if isinstance(
            resolved.workload.recompute, RecomputePlan
        ):  # layers of which nothing is kept have the least of these
            memory |= {"saved": 0.0, "copies": 0.0}
            moved = dict.fromkeys(HOST, 0.0) if offload.activations != "none" else moved
        return moved | memory

    return _layers(resolved, chosen, parts, (*HOST, *MEMORY))


def _layers(
    resolved: Resolved,
    chosen: NDArray[np.int64],
    parts_of: Callable[[Resolved, NDArray[np.int64]], dict[str, Any]],
    names: Sequence[str],
) -> dict[int, dict[str, tuple[float, float]]]:
    known: dict[int, dict[str, tuple[float, float]]] = {}
    left = [chosen]
    while left:
        some = left.pop()
        try:
            first, second = _halves(parts_of(resolved, some), len(some))
        except Diverged as diverged:
            labels = np.asarray(diverged.labels)
            if len(labels) == 2 * len(some):  # each layout stands twice
                labels = np.column_stack([labels[: len(some)], labels[len(some) :]])
                parts = alike(labels)
                if len(parts) > 1:
                    left += [some[part] for part in parts]
                    continue
            left += [some[[at]] for at in range(len(some))] if len(some) > 1 else []
            continue
        except (RoofsimError, *NOT_FOR_ARRAYS):
            left += [some[[at]] for at in range(len(some))] if len(some) > 1 else []
            continue
        for at, place in enumerate(some.tolist()):
            known[place] = {
                name: (second[name][at] - first[name][at], DEPTHS[1] * first[name][at] - DEPTHS[0] * second[name][at])
                for name in names
            }
    return known


def _halves(parts: dict[str, Any], count: int) -> Iterator[dict[str, Array]]:
    """Yield the parts of the first half of some points, and of the second."""
    whole = {name: np.broadcast_to(np.asarray(value, dtype=np.float64), (2 * count,)) for name, value in parts.items()}
    yield {name: value[:count] for name, value in whole.items()}
    yield {name: value[count:] for name, value in whole.items()}


def _parts_of(resolved: Resolved, some: NDArray[np.int64]) -> dict[str, Any]:
    """Return what models of `DEPTHS` layers take on the ranks of some layouts."""
    alone = unpriced_of(_alone(resolved, some))
    priced = priced_stages(alone.resolved, alone.program.stages)
    costs, shown = stage_costs(alone.resolved, alone.program, priced, Scales())
    head = _summed(priced[0].of_ops(_head_of(alone.program.stages[0].graph)).totals(), None)
    parts = _summed(costs[0], shown[0] if shown else None) | _held(alone.profiles[0])
    parts |= {head_part(name): head[name] for name in HEAD}
    if isinstance(resolved.workload.recompute, RecomputePlan):  # layers of which nothing is kept are the least of these
        parts |= {"saved": 0.0, "copies": 0.0}
    return parts


def _summed(cost: PassCost, shown: Exposed | None) -> dict[str, Any]:
    sums: dict[str, Any] = dict.fromkeys(PARTS, 0.0)
    for phase, seconds in cost.device.items():
        apart = cost.sustained_in(phase)
        whole = seconds["compute"] + seconds["memory_bandwidth"] + seconds["launch"]
        if phase == "optimizer":
            sums["update"] = sums["update"] + whole
            continue
        sums["short"] = sums["short"] + whole - apart.alone
        sums["held"] = sums["held"] + apart.held
        sums["energy"] = sums["energy"] + cost.power[phase]
        sums["drawn"] = sums["drawn"] + np.maximum(cost.power[phase] - apart.power, 0.0)
        sums["host"] = sums["host"] + cost.host[phase]
    sums["links"] = 0.0 if shown is None else shown.micro_batch.seconds
    return sums


def _head_of(graph: OpGraph) -> frozenset[int]:
    """Return the numbers of the ops between the last layer's forward pass and its backward pass: head and loss, both ways."""
    layers = [(at, op.phase) for at, op in enumerate(graph.ops) if op.block is not None]
    ahead = max((at for at, phase in layers if phase is Phase.FORWARD), default=len(graph.ops))
    behind = min((at for at, phase in layers if phase is not Phase.FORWARD and at > ahead), default=0)
    return frozenset(at for at in range(ahead + 1, behind) if graph.ops[at].phase is not Phase.OPTIMIZER)


def _held(profile: MemoryProfile) -> dict[str, Any]:
    live = profile.forward_end
    return {name: live[name] for name in STATES} | {"saved": live["activations"], "copies": profile.weight_copies}


def _moved(flows: Flows) -> dict[str, Any]:
    parts: dict[str, Any] = dict.fromkeys(HOST, 0.0)
    for phase in ("forward", "backward"):
        for kind, way in (("to_host", "out"), ("from_host", "back"), ("work", None)):
            flow = flows.get((phase, kind), Flow())
            parts[f"memory_{phase}"] = parts[f"memory_{phase}"] + flow.host_memory
            parts[f"storage_{phase}"] = parts[f"storage_{phase}"] + flow.storage
            if way is not None:
                parts[f"{way}_{phase}"] = flow.host_link
    work = flows.get(("optimizer", "work"), Flow())
    parts |= {"work_memory": work.host_memory, "work_storage": work.storage}
    parts["returned"] = flows.get(("optimizer", "from_host"), Flow()).host_link
    return parts


def _alone(resolved: Resolved, some: NDArray[np.int64], stages: int = 1) -> Resolved:
    """Return layouts without replicas and shards, in so many stages of few layers each, and then each with one more a stage."""
    both = np.concatenate([some, some])
    one = taken(resolved, both, varying(resolved))
    parallel, workload = one.parallel, one.workload
    experts = parallel.expert * expert_tensor_of(parallel)
    ranks: Any = np.maximum(np.ceil(experts / (parallel.tensor * parallel.context)), 1.0)
    data: Any = int(ranks) if np.ndim(ranks) == 0 else points(ranks)
    parallel = parallel.model_copy(
        update={
            "pipeline": stages,
            "virtual_stages": 1,
            "schedule": "1f1b",
            "data": data,
            "sharding": "none",
            "stage_layers": None,
            "account_for_embedding": False,
            "account_for_loss": False,
            "offload": Offload(),
        }
    )
    workload = workload.model_copy(update={"global_batch_size": workload.micro_batch_size * data})
    if isinstance(workload.recompute, RecomputePlan):  # of some layers of a stage: none of them takes the least time
        workload = workload.model_copy(update={"recompute": "none"})
    model, depth = one.model.one_layer(), points(np.repeat(DEPTHS, len(some)) * stages)
    assert model is not None
    return replace(
        one,
        points=len(both),
        parallel=parallel,
        workload=workload,
        gpus=parallel.tensor * parallel.context * data * stages,
        model=model.with_sizes(num_layers=depth),
    )
