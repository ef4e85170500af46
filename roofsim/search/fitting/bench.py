"""Try a scenario with changes: resolve, price, and keep what a decision needs of each attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.ledger import memory_of
from roofsim.analyze.money import cost
from roofsim.analyze.throughput import units_per_step
from roofsim.errors import NoDataError, SpecError
from roofsim.evaluate import evaluate
from roofsim.records import dataclass, field
from roofsim.spec.scenario.document import with_override

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from roofsim.analyze.result import Memory
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved
    from roofsim.spec.scenario.workload import RecomputePlan

#: What a scenario is refused with: a wrong combination, or a number that the catalog does not know.
REFUSALS: Final = (SpecError, NoDataError)

#: Values for ``section.key``.
Changes = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What one evaluated scenario takes, on the fullest rank, and how fast it is. SI units."""

    changes: Changes
    gpu: str
    gpus: int
    layout: dict[str, Any]
    micro_batch_size: int
    global_batch_size: int | None
    memory: float
    capacity: float
    step_time: float
    samples: float
    units: float
    unit: str
    usd_per_hour: float | None
    price_date: str | None
    price: str | None
    components: dict[str, float]

    @property
    def fits(self) -> bool:
        """Whether the memory is within the capacity."""
        return self.memory <= self.capacity

    @property
    def shortfall(self) -> float:
        """Bytes that are missing; 0 where it fits."""
        return max(self.memory - self.capacity, 0.0)

    @property
    def samples_per_second(self) -> float:
        """Samples per second of all GPUs together."""
        return self.samples / self.step_time

    @property
    def units_per_second(self) -> float:
        """Tokens or images per second of all GPUs together."""
        return self.units / self.step_time

    @property
    def seconds_per_sample(self) -> float:
        """Step time over the samples of a step: what attempts with different batches are compared by."""
        return self.step_time / self.samples

    @property
    def seconds_per_unit(self) -> float:
        """Step time over the tokens or images of a step: what attempts with different lengths are compared by."""
        return self.step_time / self.units

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        kept = {key: value for key, value in self.__dict__.items() if key not in ("samples", "units", "changes")}
        return kept | {
            "changes": self.changes,
            "fits": self.fits,
            "shortfall": self.shortfall,
            "samples_per_second": self.samples_per_second,
            "units_per_second": self.units_per_second,
            "seconds_per_sample": self.seconds_per_sample,
        }


def reach(resolved: Resolved) -> int | None:
    """Return the GPUs that a node has room for where nothing is known of the network behind it; else None."""
    return resolved.places if resolved.system.node_network is None else None


def beyond_reach(resolved: Resolved) -> str:
    """Say why more GPUs than a node has are not tried."""
    system = resolved.system
    return (
        f"{system.name} has {resolved.places} GPUs, and the network between such nodes has no stated bandwidth "
        "(system.node_network)"
    )


def takes_share(resolved: Resolved) -> bool:
    """Tell whether the engine is a server that takes a share of the memory at start, and keeps to it."""
    engine = resolved.engine
    served = resolved.workload.phase in ("prefill", "decode", "generate") and engine.server is not None
    return served and engine.cache.storage == "paged" and engine.memory.preallocated_share is not None


def room_of(resolved: Resolved, memory: Memory) -> float:
    """Return the bytes that a run may take: the card's, or what a server leaves itself of them."""
    capacity, engine = float(memory.capacity), resolved.engine
    if not takes_share(resolved) or engine.server is None or engine.memory.preallocated_share is None:
        return capacity
    share, total = engine.memory.preallocated_share, float(memory.device_total)
    cache = float(memory.components["key_value_cache"])
    resident = cache + float(memory.components["parameters"])
    return {
        "device": share * capacity,
        "static": min(share * capacity + total - resident, capacity),
        "free": total - cache + max(share * (capacity - total + cache), 0.0),
    }[engine.server.preallocated_of]


@dataclass
class Bench:
    """One scenario, the attempts that were made with it, and how many changes were refused."""

    document: Document
    resolve: Callable[[Document], Resolved]
    made: dict[str, Attempt | SpecError | NoDataError] = field(default_factory=dict)

    def attempt(self, changes: Mapping[str, Any]) -> Attempt:
        """Return the scenario with changes.

        Raises
        ------
        SpecError, NoDataError
            When they are refused.
        """
        key = repr(sorted(changes.items()))
        if key not in self.made:
            try:
                self.made[key] = self._evaluated(dict(changes))
            except REFUSALS as error:
                self.made[key] = error
        outcome = self.made[key]
        if not isinstance(outcome, Attempt):
            raise outcome
        return outcome

    def attempted(self, changes: Mapping[str, Any]) -> Attempt | None:
        """Return the scenario with changes; None where they are refused."""
        try:
            return self.attempt(changes)
        except REFUSALS:
            return None

    def resolved(self, changes: Mapping[str, Any]) -> Resolved:
        """Return the scenario with changes, resolved."""
        document = self.document
        for path, value in changes.items():
            document = with_override(document, path, value, "fit")
        return self.resolve(document)

    def with_batch(self, samples: int) -> Changes:
        """Return the changes that give each pass so many samples; a global batch that is stated goes along."""
        changes: Changes = {"workload.micro_batch_size": samples, "workload.batch_size": None}
        if not self.stated("workload.global_batch_size"):
            return changes
        workload = self.resolved({}).workload
        assert workload.global_batch_size is not None
        passes = workload.global_batch_size // (workload.micro_batch_size or 1)
        return changes | {"workload.global_batch_size": samples * passes}

    def stated(self, path: str) -> bool:
        """Tell whether the scenario itself says something of a key."""
        return self.document.states(*path.split("."))

    def unknown(self) -> list[str]:
        """Return which numbers changes were refused for the lack of, each once."""
        said = [str(outcome) for outcome in self.made.values() if isinstance(outcome, NoDataError)]
        return list(dict.fromkeys(said))

    @property
    def evaluated(self) -> int:
        """How many attempts were priced."""
        return sum(isinstance(outcome, Attempt) for outcome in self.made.values())

    @property
    def refused(self) -> int:
        """How many changes were refused, as combinations that the scenario's parts do not allow."""
        return len(self.made) - self.evaluated

    def _evaluated(self, changes: Changes) -> Attempt:
        resolved = self.resolved(changes)
        evaluation = evaluate(resolved)
        memory = memory_of(evaluation)
        samples, units, unit = units_per_step(resolved)
        step = float(evaluation.step.step)
        price = cost(resolved.gpu, resolved.system, resolved.gpus, step, float(units), unit)
        workload = resolved.workload
        return Attempt(
            changes=changes,
            gpu=resolved.gpu.name,
            gpus=resolved.gpus,
            layout=_layout(resolved),
            micro_batch_size=int(workload.micro_batch_size or 1),
            global_batch_size=workload.global_batch_size,
            memory=float(memory.device_total),
            capacity=room_of(resolved, memory),
            step_time=step,
            samples=float(samples),
            units=float(units),
            unit=unit,
            usd_per_hour=price["usd_per_hour"],
            price_date=price["price_date"],
            price=price["price"],
            components={name: float(amount) for name, amount in memory.components.items()},
        )


def _recompute(given: str | RecomputePlan) -> Any:
    return given if isinstance(given, str) else given.model_dump(exclude_none=True)


def _layout(resolved: Resolved) -> dict[str, Any]:
    parallel, workload = resolved.parallel, resolved.workload
    sharding = parallel.sharding
    recompute = workload.recompute
    return {
        "tensor": parallel.tensor,
        "pipeline": parallel.pipeline,
        "context": parallel.context,
        "expert": parallel.expert,
        "data": parallel.data,
        "sequence": parallel.sequence,
        "sharding": sharding if isinstance(sharding, str) or sharding is None else sharding.model_dump(),
        "recompute": _recompute(recompute) if workload.phase == "train" else None,
    }
