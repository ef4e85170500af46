"""What holds of every answer, whatever was asked."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Rounding of sums.
CLOSE = 1e-6
ROUNDING = 1e-12
#: Elasticities lie between -1 and 0, but for soft corners; where copies, collectives or other stages run beside kernels, what hides
#: behind these is counted at full clock and by the device alone, which leaves more. The time over which a power controller averages
#: scales with launches, the other time constant of a card (`PricedKernels.held_share`): a shorter one holds long products to the
#: limit by themselves, up to +0.036 as far as is known (internlm2-1.8b forward in maxtext on b200).
SOFT, SOFT_BESIDE = 0.01, 1.0
SOFT_RATES = {"launch_rate": 0.04}
#: Keys below which a number may be negative: differences and derivatives, and what is quoted from elsewhere.
SIGNED = frozenset({"elasticity", "provenance", "scenario", "difference", "error", "slowdown"})


def numbers(data: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Iterate over the numbers of plain data, each with the path to it."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield from numbers(value, f"{path}.{name}")
    elif isinstance(data, list | tuple):
        for place, value in enumerate(data):
            yield from numbers(value, f"{path}[{place}]")
    elif isinstance(data, int | float) and not isinstance(data, bool):
        yield path, data


def broken_by_numbers(data: Any) -> list[str]:
    """Return the figures of an answer that are not finite, or negative where none may be."""
    broken = []
    try:
        json.dumps(data, allow_nan=False)
    except (ValueError, TypeError, OverflowError) as error:
        broken.append(f"no plain JSON: {error}")
    for path, value in numbers(data):
        if not math.isfinite(value):
            broken.append(f"{path} is {value}")
        elif value < -ROUNDING and not SIGNED.intersection(path.replace("[", ".").split(".")):
            broken.append(f"{path} is negative: {value}")
    return broken[:20]


def broken_by_result(data: dict[str, Any]) -> list[str]:
    """Return the laws that the answer of a run breaks."""
    if not isinstance(data["step_time"], float):
        return ["step_time is no number"]
    return [
        *broken_by_numbers(data),
        *_of_time(data),
        *_of_memory(data["memory"]),
        *_of_shares(data),
        *_of_throughput(data),
    ]


def _near(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=CLOSE, abs_tol=1e-15)


def _of_time(data: dict[str, Any]) -> list[str]:
    step, interval, broken = data["step_time"], data["step_time_interval"], []
    if not step > 0.0:
        broken.append(f"step_time is {step}")
    if not _near(sum(data["time"].values()), step):
        broken.append(f"time sums to {sum(data['time'].values())}, step_time is {step}")
    if interval is not None and not interval[0] <= step <= interval[1]:
        broken.append(f"step_time {step} is outside of its interval {interval}")
    return broken


def _of_memory(memory: dict[str, Any]) -> list[str]:
    broken, peak, capacity = [], memory["peak"], memory["capacity"]
    if not _near(sum(memory["components"].values()), peak):
        broken.append(f"memory.components sum to {sum(memory['components'].values())}, peak is {peak}")
    if memory["fits"] != (peak <= capacity):
        broken.append(f"memory.fits is {memory['fits']} at a peak of {peak} and a capacity of {capacity}")
    low, high = memory["peak_interval"]
    if not low <= peak <= high:
        broken.append(f"memory.peak {peak} is outside of its interval {low} .. {high}")
    if memory["verdict"] != ("fits" if high <= capacity else "does_not_fit" if low > capacity else "tight"):
        broken.append(
            f"memory.verdict is {memory['verdict']} at an interval of {low} .. {high} and a capacity of {capacity}"
        )
    if not 0.0 <= memory["fit_probability"] <= 1.0:
        broken.append(f"memory.fit_probability is {memory['fit_probability']}")
    if not _near(memory["shortfall"], max(peak - capacity, 0.0)):
        broken.append(f"memory.shortfall is {memory['shortfall']}")
    ladder = ("allocated_peak", "reserved", "device_total")
    for low, high in pairwise(ladder):
        if memory[low] > memory[high] * (1.0 + CLOSE):
            broken.append(f"memory.{low} {memory[low]} is more than {high} {memory[high]}")
    if memory["device_total"] != peak:
        broken.append(f"memory.peak {peak} is not device_total {memory['device_total']}")
    return broken


def _of_shares(data: dict[str, Any]) -> list[str]:
    broken = [f"{name} is {data[name]}" for name in ("mfu", "hfu") if not 0.0 <= data[name] <= 1.0 + CLOSE]
    alone = data["scenario"]["hardware"]["gpus"] == 1 and not data["memory"].get("off_device")
    soft = SOFT if alone else SOFT_BESIDE
    for name, value in (data["elasticity"] or {}).items():
        if not -1.0 - soft <= value <= max(soft, SOFT_RATES.get(name, 0.0)):
            broken.append(f"elasticity.{name} is {value}")
    if data["parameters"]["active"] > data["parameters"]["total"] * (1.0 + CLOSE):
        broken.append("more parameters are active than there are")
    return broken


def _of_throughput(data: dict[str, Any]) -> list[str]:
    rates, gpus = data["throughput"], data["scenario"]["hardware"]["gpus"]
    whole, each = rates["tokens_per_second"], rates["tokens_per_second_per_gpu"]
    if whole is not None and each is not None and not _near(each * gpus, whole):
        return [f"tokens_per_second_per_gpu {each} x {gpus} GPUs is not tokens_per_second {whole}"]
    return []


def broken_by_snapshot(data: dict[str, Any]) -> list[str]:
    """Return the laws that a measured snapshot breaks."""
    broken = broken_by_numbers({name: value for name, value in data.items() if name != "comparison"})
    ladder = ("allocated", "reserved")
    if data["allocated"] > data["reserved"]:
        broken.append(f"{ladder[0]} {data['allocated']} is more than {ladder[1]} {data['reserved']}")
    return broken


def broken_by_message(text: str) -> list[str]:
    """Return what is wrong with a refusal."""
    broken = []
    if not text.strip():
        broken.append("the refusal says nothing")
    if "Traceback" in text or "defect of roofsim" in text:
        broken.append("the refusal is none: " + text[-600:])
    if len(text) > 40_000:
        broken.append(f"the refusal has {len(text)} characters")
    return broken
