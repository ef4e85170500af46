"""Table what is alive at the peak by op, layer, role or stage; follow one tensor; write the memory curve as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.ledger import memory_of
from roofsim.errors import Problem, SpecError, did_you_mean
from roofsim.graph.base import Phase
from roofsim.graph.tensor import Role
from roofsim.memory.inventory import inventory
from roofsim.memory.profile import CATEGORY_OF, Liveness, last_of
from roofsim.numeric import is_scalar
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.analyze.result import Memory
    from roofsim.evaluate import Evaluation
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor
    from roofsim.memory.inventory import Alive
    from roofsim.program import Stage

VIEWS: Final = ("op", "layer", "role", "stage")


def checked_view(by: str | None) -> str | None:
    """Return a grouping.

    Raises
    ------
    SpecError
        For one that there is not.
    """
    if by is not None and by not in VIEWS:
        raise SpecError(Problem(f"unknown value {by!r}", path="--by", hint=did_you_mean(by, VIEWS)))
    return by


def alive_rows(evaluation: Evaluation, *, by: str) -> list[dict[str, Any]]:
    """Return one row an op, layer or role (largest first): what it has alive at the fullest stage's peak; or one a stage.

    An op stands for what it made; what is there before the step counts for the op that reads it first. Rows sum to the
    allocated peak.
    """
    if checked_view(by) == "stage":
        return stage_rows(evaluation)
    _scalars(evaluation)
    place = fullest_stage(evaluation)
    stage = evaluation.program.stages[place]
    at_peak = inventory(stage.graph, stage.in_flight)
    ledger = _alone(evaluation, place)
    allocated, idle = last_of(ledger.allocated_peak), 0.0
    if evaluation.program.networks:
        idle = last_of(ledger.components["parameters"]) - sum(
            alive.bytes for alive in at_peak.entries if alive.category == "parameters"
        )
    rows: dict[str, dict[str, Any]] = {}
    for alive in at_peak.entries:
        _add(rows, _key(alive, by), alive)
    if idle > 1.0:
        rows["other networks"] = {"name": "other networks", "bytes": idle, "storages": 1.0, "of": {"parameters"}}
    if allocated - idle - at_peak.peak > 1.0:
        more = allocated - idle - at_peak.peak
        rows["workspace"] = {"name": "workspace", "bytes": more, "storages": 1.0, "of": {"temporary"}}
    return [
        {
            "name": row["name"],
            "bytes": row["bytes"],
            "share": row["bytes"] / allocated,
            "storages": row["storages"],
            "of": ", ".join(sorted(row["of"])),
        }
        for row in sorted(rows.values(), key=lambda row: -row["bytes"])
    ]


def _key(alive: Alive, by: str) -> str:
    if by == "op":
        return alive.op.name
    return layer_of(alive.op) if by == "layer" else str(alive.role)


def layer_of(op: AbstractOp) -> str:
    """Return the layer of an op: of a backward one, that of its forward."""
    block = op.block
    if block is not None and block.mirror is not None:
        return block.mirror.name
    return op.layer


def _add(rows: dict[str, dict[str, Any]], key: str, alive: Alive) -> None:
    row = rows.setdefault(key, {"name": key, "bytes": 0.0, "storages": 0.0, "of": set()})
    row["bytes"] += alive.bytes
    row["storages"] += alive.copies
    row["of"].add(alive.category)


def _scalars(evaluation: Evaluation) -> None:
    """Refuse arrays of sizes: there is no single peak to list."""
    averaged = [stage.averaged for stage in evaluation.program.stages]
    peaks = [profile.peak for profile, over in zip(evaluation.profiles, averaged, strict=True) if not over]
    if not is_scalar(*peaks):
        raise SpecError(Problem("sizes are arrays; what is alive at the peak is only listed for single sizes"))


# -- stages -------------------------------------------------------------------------------------------------------


def _alone(evaluation: Evaluation, place: int) -> Memory:
    """Return the ledger of one stage."""
    program = replace(evaluation.program, stages=(evaluation.program.stages[place],))
    priced, profiles = (evaluation.priced[place],), (evaluation.profiles[place],)
    return memory_of(replace(evaluation, program=program, priced=priced, followed=profiles, paces=()))


def fullest_stage(evaluation: Evaluation) -> int:
    """Return the place of the stage with the largest peak, the later of two that are alike."""
    peaks = [last_of(_alone(evaluation, place).allocated_peak) for place in range(len(evaluation.profiles))]
    return max(range(len(peaks)), key=lambda place: (peaks[place], place))


def stage_rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return one row a kind of pipeline stage (or a pass of inference): its peak, what it holds, its components."""
    _scalars(evaluation)
    rows = []
    for place, stage in enumerate(evaluation.program.stages):
        ledger = _alone(evaluation, place)
        rows.append(
            {
                "name": stage.name,
                "stages": last_of(stage.positions),
                "layers": _layers(stage),
                "in_flight": last_of(stage.in_flight),
                "allocated_peak": last_of(ledger.allocated_peak),
                "reserved": last_of(ledger.reserved),
                "device_total": last_of(ledger.device_total),
                "device_total_interval": ledger.interval,
                "fits": bool(np.all(ledger.fits)),
                "verdict": ledger.verdict,
                "peak_op": ledger.peak_op,
                "peak_phase": ledger.peak_phase,
                "components": {name: last_of(amount) for name, amount in ledger.components.items()},
            }
        )
    return rows


def _layers(stage: Stage) -> float:
    return sum(last_of(block.repeat) for block in stage.graph.blocks if block.mirror is None)


# -- one tensor ---------------------------------------------------------------------------------------------------


def tensor_rows(evaluation: Evaluation, name: str) -> list[dict[str, Any]]:
    """Return the life of each tensor of a name: who makes and who reads it last, as what, beside whom in its storage.

    Raises
    ------
    SpecError
        When no tensor has that name; says which are like it.
    """
    _scalars(evaluation)
    rows: list[dict[str, Any]] = []
    names: dict[str, None] = {}
    for place, stage in enumerate(evaluation.program.stages):
        tensors = _tensors(stage.graph)
        names |= dict.fromkeys(tensor.name for tensor in tensors)
        wanted = [tensor for tensor in tensors if tensor.name == name]
        if wanted:
            rows += _Lives(evaluation, place, tensors).of(wanted)
    if not rows:
        raise SpecError(Problem(f"there is no tensor {name!r}", path="--tensor", hint=did_you_mean(name, names)))
    return rows


def _tensors(graph: OpGraph) -> list[Tensor]:
    return list(dict.fromkeys(tensor for op in graph for tensor in (*op.inputs, *op.holds, *op.outputs)))


class _Lives:
    """The lives of the tensors of one stage."""

    def __init__(self, evaluation: Evaluation, place: int, tensors: list[Tensor]) -> None:
        self.stage = evaluation.program.stages[place]
        self.graph = self.stage.graph
        self.live = Liveness(self.graph, 1.0)
        self.sharing: dict[Tensor, list[Tensor]] = {}
        for tensor in tensors:
            self.sharing.setdefault(tensor.root, []).append(tensor)
        self.last: dict[Tensor, AbstractOp] = {}
        for op in self.graph:
            self.last |= dict.fromkeys((*op.inputs, *op.holds), op)
        at_peak = inventory(self.graph, self.stage.in_flight)
        self.alive = {entry.tensor: entry for entry in at_peak.entries}

    def of(self, tensors: list[Tensor]) -> list[dict[str, Any]]:
        return [self._one(tensor) for tensor in tensors]

    def _one(self, tensor: Tensor) -> dict[str, Any]:
        root, storage = tensor.root, self.live.storages.get(tensor.root)
        maker, reader = self.graph.producer.get(tensor), self.last.get(tensor)
        place = maker or self.graph.sources.get(root)
        freed = None if storage is None or self._stays(root) else self.graph.ops[storage.last].name
        alive = self.alive.get(root)
        # All but the last of what leaves an iteration are what enters the next.
        entering = self.live.leaving.get(root)
        again = maker is not None and maker.block is not None and (maker.block, entering) in self.live.undone
        saved = root in self.live.saved_roots or again
        return {
            "name": tensor.name,
            "stage": self.stage.name,
            "bytes": last_of(tensor.numel * tensor.dtype.itemsize),
            "shape": [last_of(size) for size in tensor.shape],
            "type": tensor.dtype.name,
            "role": str(tensor.role),
            "counts_as": storage.category if storage is not None else CATEGORY_OF.get(root.role),
            "layer": None if place is None else layer_of(place),
            "copies": 1.0 if place is None or root.role is Role.INPUT else last_of(place.repeats),
            "born_by": None if maker is None else maker.name,
            "born_in": None if maker is None else str(maker.phase),
            "last_read_by": None if reader is None else reader.name,
            "last_read_in": None if reader is None else str(reader.phase),
            "saved_for_backward": saved and (maker is None or maker.phase is Phase.FORWARD),
            "handed_on_as": None if entering is None else entering.name,
            "storage": root.name,
            "storage_bytes": last_of(root.numel * root.dtype.itemsize),
            "storage_freed_after": freed,
            "shares_storage_with": [other.name for other in self.sharing[root] if other is not tensor],
            "alive_at_peak": 0.0 if alive is None else alive.bytes,
        }

    @staticmethod
    def _stays(root: Tensor) -> bool:
        return root.persistent or root.role is Role.GRADIENT


# -- the curve ----------------------------------------------------------------------------------------------------


def curve_rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return one row an instant of allocation: stage, op, phase, what is alive in all and by category."""
    rows = []
    for stage, profile in zip(evaluation.program.stages, evaluation.profiles, strict=True):
        for index, (op, phase, live) in enumerate(profile.curve):
            amounts = {"allocated": sum(live.values()), **live}
            rows.append({"stage": stage.name, "index": index, "op": op, "phase": phase, **amounts})
    if not rows:
        raise SpecError(Problem("sizes are arrays; a memory curve needs single sizes"))
    return rows
