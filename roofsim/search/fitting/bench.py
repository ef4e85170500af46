"""Try a scenario with changes: resolve it, follow its memory, price it where its time is asked for; keep what decisions need."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.ledger import memory_of
from roofsim.analyze.money import cost
from roofsim.analyze.throughput import units_per_step
from roofsim.analyze.verdicts import chance_below, room_verdict
from roofsim.errors import NoDataError, SpecError
from roofsim.evaluate import evaluate, unpriced_of
from roofsim.records import dataclass, field
from roofsim.search.resolving import Shared
from roofsim.spec.scenario.document import with_override
from roofsim.structures import first_stage_of

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
    """What one scenario takes, on the fullest rank, and how fast it is, worked out when somebody asks. SI units."""

    changes: Changes
    resolved: Resolved
    memory: float
    capacity: float
    components: dict[str, float]
    samples: float
    units: float
    unit: str
    interval: tuple[float, float]
    """Ends of the 80 % interval of `memory`."""
    missing_off_device: dict[str, float] = field(default_factory=dict)
    """Bytes that a node lacks in each place beyond the device; 0 where it holds what goes there."""

    @property
    def gpus(self) -> int:
        """All GPUs of the scenario."""
        return self.resolved.gpus

    @cached_property
    def layout(self) -> dict[str, Any]:
        """The degrees of parallelism, sharding and recomputation."""
        return _layout(self.resolved)

    @property
    def global_batch_size(self) -> int | None:
        """Samples of a training step, of all GPUs together."""
        return self.resolved.workload.global_batch_size

    @cached_property
    def step_time(self) -> float:
        """Seconds of a step.

        Raises
        ------
        SpecError, NoDataError
            When it cannot be priced.
        """
        return float(evaluate(self.resolved).step.step)

    @cached_property
    def refusal(self) -> SpecError | NoDataError | None:
        """Why its step cannot be priced; None where it can."""
        try:
            _ = self.step_time
        except REFUSALS as error:
            return error
        return None

    @cached_property
    def _cost(self) -> dict[str, Any]:
        resolved = self.resolved
        return cost(resolved.gpu, resolved.system, resolved.gpus, self.step_time, self.units, self.unit, None)

    @property
    def usd_per_hour(self) -> float | None:
        """Price of all GPUs; None where nobody states it."""
        usd: float | None = self._cost["usd_per_hour"]
        return usd

    @property
    def price(self) -> str | None:
        """Whose price it is, and of when, in words."""
        words: str | None = self._cost["price"]
        return words

    @property
    def fits(self) -> bool:
        """Whether the memory is within the capacity, and places beyond the device hold what goes there."""
        return self.memory <= self.capacity and not any(self.missing_off_device.values())

    @property
    def verdict(self) -> str:
        """Return ``fits``, ``tight`` where the capacity lies inside the interval, or ``does_not_fit``."""
        return str(room_verdict(self.interval, self.memory, self.capacity, *self.missing_off_device.values()))

    @property
    def fit_probability(self) -> float:
        """The probability that the memory is within the capacity."""
        lacking = any(self.missing_off_device.values())
        return 0.0 if lacking else float(chance_below(self.capacity, self.memory, self.interval))

    @property
    def runs(self) -> bool:
        """Whether it fits and can be priced."""
        return self.fits and self.refusal is None

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
        return {
            "gpu": self.resolved.gpu.name,
            "gpus": self.gpus,
            "layout": self.layout,
            "micro_batch_size": int(self.resolved.workload.micro_batch_size or 1),
            "global_batch_size": self.global_batch_size,
            "memory": self.memory,
            "capacity": self.capacity,
            "step_time": self.step_time,
            "unit": self.unit,
            "usd_per_hour": self.usd_per_hour,
            "price_date": self._cost["price_date"],
            "price": self.price,
            "components": self.components,
            "changes": self.changes,
            "fits": self.fits,
            "verdict": self.verdict,
            "fit_probability": self.fit_probability,
            "memory_interval": list(self.interval),
            "shortfall": self.shortfall,
            **({"off_device_missing": self.missing_off_device} if self.missing_off_device else {}),
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


@dataclass(frozen=True, kw_only=True)
class Floor:
    """What the first stage of a pipeline takes: the fullest takes no less.

    Attributes
    ----------
    memory
        Bytes of its peak and the context.
    tensors
        The same without what only sharding itself takes: whole units it gathers.
    """

    memory: float
    tensors: float


@dataclass
class Workbench:
    """One scenario, and the attempts that were made with it."""

    document: Document
    resolve: Callable[[Document, Shared], Resolved]
    made: dict[str, Attempt | SpecError | NoDataError] = field(default_factory=dict)

    shared: Shared = field(default_factory=Shared)
    ready: dict[str, Resolved] = field(default_factory=dict)
    """Scenarios with changes that are possible, and were not followed yet."""
    floors: dict[str, Floor | None] = field(default_factory=dict)

    def held(self, changes: Mapping[str, Any]) -> Attempt:
        """Return the scenario with changes; its memory was followed, its step is priced when somebody asks.

        Raises
        ------
        SpecError, NoDataError
            When they are refused.
        """
        key = _key(changes)
        if key not in self.made:
            try:
                resolved = self.ready.pop(key, None) or self.resolved(dict(changes))
                self.made[key] = _followed(resolved, dict(changes))
            except REFUSALS as error:
                self.made[key] = error
        attempt = self.made[key]
        if not isinstance(attempt, Attempt):
            raise attempt
        return attempt

    def floor(self, changes: Mapping[str, Any]) -> Floor | None:
        """Return what the first stage takes, of a training pipeline with changes that are possible; else None."""
        key = _key(changes)
        if key not in self.floors:
            resolved = self.ready.get(key)
            trains = resolved is not None and resolved.workload.phase == "train" and resolved.parallel.pipeline > 1
            self.floors[key] = _floor_of(resolved) if resolved is not None and trains else None
        return self.floors[key]

    def possible(self, changes: Mapping[str, Any]) -> bool:
        """Tell whether changes are allowed, without following their memory."""
        key = _key(changes)
        if key not in self.made and key not in self.ready:
            try:
                self.ready[key] = self.resolved(dict(changes))
            except REFUSALS as error:
                self.made[key] = error
        return key in self.ready or isinstance(self.made[key], Attempt)

    def attempt(self, changes: Mapping[str, Any]) -> Attempt:
        """Return the scenario with changes, priced.

        Raises
        ------
        SpecError, NoDataError
            When they are refused, or cannot be priced.
        """
        attempt = self.held(changes)
        if attempt.refusal is not None:
            self.made[_key(changes)] = attempt.refusal
            raise attempt.refusal
        return attempt

    def attempted(self, changes: Mapping[str, Any]) -> Attempt | None:
        """Return what `held` does; None where the changes are refused."""
        try:
            return self.held(changes)
        except REFUSALS:
            return None

    def resolved(self, changes: Mapping[str, Any]) -> Resolved:
        """Return the scenario with changes, resolved."""
        document = self.document
        for path, value in changes.items():
            document = with_override(document, path, value, "fit")
        return self.resolve(document, self.shared)

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


def _key(changes: Mapping[str, Any]) -> str:
    return repr(sorted(changes.items()))


def _floor_of(resolved: Resolved) -> Floor:
    memory = memory_of(unpriced_of(resolved, program=first_stage_of(resolved)))
    least = float(memory.allocated_peak + memory.components["context"])
    return Floor(memory=least, tensors=beyond_sharding(memory.components))


def beyond_sharding(components: Mapping[str, Any]) -> float:
    """Return the bytes of tensors, without what only sharding itself takes: whole units it gathers."""
    besides = ("communication_buffers", "context", "fragmentation")
    return sum(float(amount) for name, amount in components.items() if name not in besides)


def _followed(resolved: Resolved, changes: Changes) -> Attempt:
    memory = memory_of(unpriced_of(resolved))
    assert memory.interval is not None
    samples, units, unit = units_per_step(resolved)
    return Attempt(
        changes=changes,
        resolved=resolved,
        memory=float(memory.device_total),
        capacity=room_of(resolved, memory),
        components={name: float(amount) for name, amount in memory.components.items()},
        samples=float(samples),
        units=float(units),
        unit=unit,
        interval=(float(memory.interval[0]), float(memory.interval[1])),
        missing_off_device={place: float(amount) for place, amount in memory.missing_off_device.items()},
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
