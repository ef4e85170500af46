"""Hold what a run found: one type for scalars and arrays, with its plain-data form of schema roofsim/result/1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.printed import Drawn
from roofsim.analyze.verdicts import chance_below, room_verdict
from roofsim.numeric import where
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from roofsim.analyze.goodput import Goodput
    from roofsim.analyze.utilization import Utilization
    from roofsim.numeric import Real

SCHEMA: Final = "roofsim/result/1"


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes on the fullest rank; `peak` is what is compared with the card's capacity.

    `components` sum to `peak`; `interval` has the ends of its 80 % interval.
    """

    allocated_peak: Real
    reserved: Real
    device_total: Real
    saved_activations: Real
    capacity: Real
    components: dict[str, Real]
    peak_op: str = ""
    peak_phase: str = ""
    off_device: dict[str, dict[str, Real]] = field(default_factory=dict)
    """What one GPU keeps off the device: place (host, cxl, nvme, nvmeof) -> part -> bytes."""
    ways: dict[str, dict[str, dict[str, Real]]] = field(default_factory=dict)
    """Bytes per second of one GPU on the way to each of these places: place -> from_host, to_host -> link."""
    missing_off_device: dict[str, Real] = field(default_factory=dict)
    """Bytes that a node lacks in each of these places whose size is stated; 0 where it holds what goes there."""
    interval: tuple[Any, Any] | None = None

    @property
    def fits(self) -> Any:
        """Whether the peak is within the capacity, and places beyond the device hold what goes there (a bool, or an array)."""
        room: Any = self.device_total <= self.capacity
        for missing in self.missing_off_device.values():
            room = room & (missing <= 0.0)
        return room

    @property
    def verdict(self) -> Any:
        """Return ``fits``, ``tight`` where the capacity lies inside the interval, or ``does_not_fit``; or an array of these."""
        return room_verdict(self.interval, self.device_total, self.capacity, *self.missing_off_device.values())

    @property
    def fit_probability(self) -> Any:
        """The probability that the peak is within the capacity, or an array of it; None without an interval."""
        if self.interval is None:
            return None
        chance = chance_below(self.capacity, self.device_total, self.interval)
        for missing in self.missing_off_device.values():
            chance = where(missing > 0.0, 0.0, chance)
        return chance

    @property
    def shortfall(self) -> Real:
        """Bytes that are missing on the device; 0 where it fits there."""
        missing = np.maximum(np.asarray(self.device_total) - np.asarray(self.capacity), 0.0)
        return float(missing) if missing.ndim == 0 else missing


@dataclass(frozen=True, kw_only=True, repr=False)
class Result(Drawn):
    """The answer to a scenario. Figures are floats and texts, or arrays with one element per point of a sweep."""

    scenario: dict[str, Any]
    step_time: Real
    step_time_interval: tuple[Any, Any] | None = None
    interval_terms: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """How far each term of the interval alone puts its lower and upper end, as logarithms."""
    own_kernels: Real = 0.0
    """Share of the kernels' time whose classes were measured on the card itself (`--calibration`)."""
    throughput: dict[str, Real | None]
    latency: dict[str, Real | None]
    model_flops: Real
    hardware_flops: Real
    mfu: Real
    hfu: Real
    utilization: Utilization
    bound: Any
    runner_up: dict[str, Any] | None
    time: dict[str, Real]
    waits: dict[str, Real]
    """Seconds of the step in which no kernel of the rank runs: with the times of `work`'s kernels they are the step."""
    host_time: Real
    device_time: Real
    parameters: dict[str, Real]
    work: dict[str, dict[str, dict[str, Real]]]
    memory: Memory
    elasticity: dict[str, Any] | None
    cost: dict[str, Any]
    warnings: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    provenance: tuple[dict[str, Any], ...] = ()
    summary: dict[str, Any] = field(default_factory=dict)
    goodput: Goodput | None = None
    """What checkpoints and failures make of a long run, where the scenario states them."""
    networks: tuple[dict[str, Any], ...] = ()
    """Of a diffusion pipeline: name, runs, time, flops, parameters and bound of each network."""

    @property
    def bandwidth_bound(self) -> Any:
        """Whether memory bandwidth is what limits the step."""
        return None if self.bound is None else self.bound == "memory_bandwidth"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: numbers, texts, lists and mappings, ready for JSON."""
        document: dict[str, Any] = plain(self.figures())
        return document

    def figures(self) -> dict[str, Any]:
        """Return what `to_dict` does, with arrays as they are."""
        memory = self.memory
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "scenario": self.scenario,
            "step_time": self.step_time,
            "step_time_interval": self.step_time_interval,
            "throughput": self.throughput,
            "latency": self.latency,
            "model_flops": self.model_flops,
            "hardware_flops": self.hardware_flops,
            "mfu": self.mfu,
            "hfu": self.hfu,
            "utilization": self.utilization.to_dict(),
            "bound": self.bound,
            "runner_up": self.runner_up,
            "bandwidth_bound": self.bandwidth_bound,
            "time": self.time,
            "waits": self.waits,
            "parameters": self.parameters,
            "work": self.work,
            "memory": {
                "allocated_peak": memory.allocated_peak,
                "reserved": memory.reserved,
                "device_total": memory.device_total,
                "peak": memory.device_total,
                "saved_activations": memory.saved_activations,
                "capacity": memory.capacity,
                "fits": memory.fits,
                "verdict": memory.verdict,
                "fit_probability": memory.fit_probability,
                "peak_interval": memory.interval,
                "shortfall": memory.shortfall,
                "components": memory.components,
            }
            | ({"off_device": memory.off_device} if memory.off_device else {})
            | ({"off_device_ways": memory.ways} if memory.ways else {})
            | ({"off_device_missing": memory.missing_off_device} if memory.missing_off_device else {}),
            "elasticity": self.elasticity,
            "cost": self.cost,
            "warnings": self.warnings,
            "provenance": self.provenance,
        }
        if self.networks:
            document["networks"] = self.networks
        if self.goodput is not None:
            document["goodput"] = self.goodput.to_dict()
        return document


def plain(value: Any) -> Any:
    """Convert numpy values, tuples and whole floats' containers to what JSON knows."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return value
