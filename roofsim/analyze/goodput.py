"""Say what share of a long run is progress: checkpoints, failures, and the interval between checkpoints that is best."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Problem, SpecError
from roofsim.evaluate import host_path_of
from roofsim.graph.tensor import Role
from roofsim.numeric import divide, real
from roofsim.program import build
from roofsim.records import asdict, dataclass, replace
from roofsim.spec.scenario.offload import Offload
from roofsim.spec.scenario.workload import Parallel
from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation
    from roofsim.spec.resolve import Resolved

SAVED: Final = (Role.PARAMETER, Role.MASTER_PARAMETER, Role.OPTIMIZER_STATE)
#: Bytes of an element of what optimizers update.
_FULL: Final = 4.0
#: Share of progress below which nobody waits for the end of a job.
HOPELESS: Final = 0.001


@dataclass(frozen=True, kw_only=True)
class Goodput:
    """What checkpoints and failures make of a run. Seconds and bytes; None where nothing fails.

    Attributes
    ----------
    checkpoint_bytes
        Parameters and optimizer state, each once however many ranks hold it.
    write_time, read_time
        Of one checkpoint, all nodes at once.
    blocking_time
        What training waits for one: the whole writing, or the copy to the host.
    interval
        Training time between checkpoints.
    checkpoint_share
        Share of time in which training waits for checkpoints.
    mtbf, restart
        Between failures of the whole job; from a failure to the first step, reading included.
    young, daly
        Best intervals after Young (CACM 17, 1974) and Daly (FGCS 22, 2006).
    goodput
        Share of time that is progress.
    goodput_at_daly
        The same at Daly's interval.
    step_time
        Mean seconds of a step, all of that included.
    """

    checkpoint_bytes: float
    write_time: float
    read_time: float
    blocking_time: float
    interval: float
    checkpoint_share: float
    mtbf: float | None
    restart: float | None
    young: float | None
    daly: float | None
    goodput: float
    goodput_at_daly: float | None
    step_time: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def goodput_of(evaluation: Evaluation) -> Goodput | None:
    """Return what a run makes of its time; None where no checkpoints are stated. Of several points, all must have the same."""
    resolved = evaluation.resolved
    plan = resolved.workload.checkpoint
    if plan is None:
        return None
    step, reliability = float(evaluation.step.step), resolved.reliability
    size = checkpoint_bytes(resolved)
    nodes = math.ceil(resolved.gpus / resolved.system.gpus_per_node)
    write, read = _rates(resolved, nodes)
    writing, reading = size / write, size / read
    copying = _copying(resolved, size)
    blocking = copying if plan.background else max(writing, copying)
    mtbf, restart = reliability.mtbf, reliability.restart + reading
    best = None if mtbf is None else daly(blocking, mtbf)
    interval = step * plan.every if plan.every is not None else plan.interval or best
    assert interval is not None
    # In the background a checkpoint cannot follow another before that is written; until then a failure loses more.
    late = writing if plan.background else 0.0
    interval = max(interval, late)
    share = blocking / (interval + blocking)
    goodput = 1.0 - share if mtbf is None else progress(interval, blocking, mtbf, restart + late)
    if goodput < HOPELESS:
        message = (
            f"a failure every {humanize(float(mtbf or 0.0), 's', 3)} on average, {humanize(interval + blocking, 's', 3)} between "
            f"checkpoints and {humanize(restart + late, 's', 3)} to restart: the job never makes progress"
        )
        raise SpecError(
            Problem(
                message,
                path="hardware.mtbf",
                hint="Write checkpoints more often, or state a longer time between failures.",
            )
        )
    return Goodput(
        checkpoint_bytes=size,
        write_time=writing,
        read_time=reading,
        blocking_time=blocking,
        interval=interval,
        checkpoint_share=share,
        mtbf=mtbf,
        restart=None if mtbf is None else restart,
        young=None if mtbf is None else young(blocking, mtbf),
        daly=best,
        goodput=goodput,
        goodput_at_daly=None
        if mtbf is None or best is None
        else progress(max(best, late), blocking, mtbf, restart + late),
        step_time=float(divide(step, goodput)),
    )


def checkpoint_bytes(resolved: Resolved) -> float:
    """Return the bytes of a checkpoint: what a single device would hold of parameters and optimizer state."""
    micro = resolved.workload.micro_batch_size
    workload = resolved.workload.model_copy(update={"global_batch_size": micro, "recompute": "none"})
    alone = replace(resolved, gpus=1, parallel=Parallel(data=1, sharding="none", offload=Offload()), workload=workload)
    (stage,) = build(alone).stages
    # Engines that keep fp32 shards write those; copies to compute with are made anew.
    shards = resolved.engine.precision.recipe == "sharded"
    total = 0.0
    for tensor, reader in stage.graph.sources.items():
        copied = shards and tensor.role is Role.PARAMETER and float(tensor.dtype.itemsize) < _FULL
        if tensor.role in SAVED and not copied:
            total += float(tensor.bytes) * float(reader.repeats)
    return total


def _rates(resolved: Resolved, nodes: int) -> tuple[float, float]:
    """Return bytes per second to and from storage of all nodes together."""
    plan, storage = resolved.workload.checkpoint, resolved.system.storage
    assert plan is not None
    shared = math.inf if plan.bandwidth is None else plan.bandwidth
    write = shared if storage.write is None else min(float(real(storage.write)) * nodes, shared)
    read = write if storage.read is None else min(float(real(storage.read)) * nodes, shared)
    return write, read


def _copying(resolved: Resolved, size: float) -> float:
    """Return the seconds in which each rank copies its part to the host."""
    link = float(host_path_of(resolved).link_back)
    return size / resolved.gpus / link if link else 0.0


def young(blocking: float, mtbf: float) -> float:
    """Return the best interval to first order: ``sqrt(2 d M)``.

    >>> young(50.0, 10_000.0)
    1000.0
    """
    return math.sqrt(2.0 * blocking * mtbf)


def daly(blocking: float, mtbf: float) -> float:
    """Return the best interval to higher order; never more than the time between failures."""
    if blocking >= 2.0 * mtbf:
        return mtbf
    ratio = blocking / (2.0 * mtbf)
    return young(blocking, mtbf) * (1.0 + math.sqrt(ratio) / 3.0 + ratio / 9.0) - blocking


def progress(interval: float, blocking: float, mtbf: float, restart: float) -> float:
    """Return the share of time that is progress, where failures come at random (exponentially) at any time.

    A piece of `interval` seconds with its checkpoint takes ``M exp(R / M) (exp((t + d) / M) - 1)`` on average (Daly, FGCS
    22, 2006, equation 13).
    """
    exponent = (interval + blocking) / mtbf
    if exponent + restart / mtbf > 700.0:
        return 0.0
    expected = mtbf * math.exp(restart / mtbf) * math.expm1(exponent)
    return interval / expected


__all__ = ["Goodput", "checkpoint_bytes", "daly", "goodput_of", "progress", "young"]
