"""Take the time of a call on a device: events, delays, cold caches, as many repeats as fit."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

COLUMNS = (
    "source", "gpu", "op", "m", "n", "k", "batch", "heads", "kv_heads", "head_dim", "q_len", "kv_len", "other", "dtype",
    "time_us",
)  # fmt: skip
THOUSAND = 1000.0  # nanoseconds in a microsecond, microseconds in a millisecond
MEBI = 2**20
#: Bytes of an element, its type in PyTorch, the first CUDA compute capability with the arithmetic in hardware.
DTYPES = {
    "fp32": (4, "float32", (0, 0)),
    "tf32": (4, "float32", (8, 0)),
    "fp16": (2, "float16", (6, 0)),
    "bf16": (2, "bfloat16", (8, 0)),
    "fp8": (1, "float8_e4m3fn", (8, 9)),
}


@dataclass(frozen=True)
class Workpiece:
    """What to time: names, sizes, and a function that allocates inputs and returns the call; a call runs `calls` kernels.

    `work` (FLOPs or bytes) orders the cases of a group and predicts their time; `memory` is in bytes; `seconds` replaces
    the usual share of the budget. `clock` is device, wall (host, until done) or issue (host, until issued).
    """

    op: str
    dtype: str
    sizes: dict[str, int]
    other: dict[str, object]
    make: Callable[[], Callable[[], object]]
    work: float
    memory: float = 0.0
    cold: bool = True
    calls: int = 1
    clock: str = "device"
    seconds: float = 0.0

    def told(self, facts: dict[str, object]) -> Workpiece:
        """Return it with more facts about its row."""
        return replace(self, other={**self.other, **facts})

    def __str__(self) -> str:
        return f"{self.op} {self.dtype} {self.sizes or ''} {json.dumps(self.other)}"


def row(source: str, gpu: str, case: Workpiece, facts: dict[str, object], time_us: float) -> dict[str, object]:
    """Return the line of the table for a case: every column, empty where it means nothing."""
    other = json.dumps({**case.other, **facts}, separators=(",", ":"))
    named = {"source": source, "gpu": gpu, "op": case.op, "dtype": case.dtype, "other": other}
    return {**dict.fromkeys(COLUMNS, ""), **case.sizes, **named, "time_us": f"{time_us:.5g}"}


def tell(text: str) -> None:
    """Say something to the user, beside the table."""
    sys.stderr.write(f"{text}\n")


class Bench:
    """A device, and how time is taken on it."""

    def __init__(self, torch: Any, device: Any) -> None:
        self.torch, self.device, self.cuda = torch, device, device.type == "cuda"
        properties = torch.cuda.get_device_properties(device) if self.cuda else None
        self.cache = int(getattr(properties, "L2_cache_size", 0) or 64 * MEBI)
        self.buffer = self.random("fp32", max(2 * self.cache, 64 * MEBI) // 4) if self.cuda else None
        self.fastest: dict[tuple[str, str], float] = {}  # work in a microsecond

    def dtypes(self, *wanted: str) -> list[str]:
        """Return the number formats among `wanted` that the device has."""
        if not self.cuda:
            return [name for name in wanted if name in ("fp32", "bf16")]
        if getattr(self.torch.version, "hip", None):
            return [name for name in wanted if name in ("fp32", "fp16", "bf16")]
        capability = self.torch.cuda.get_device_capability(self.device)
        return [name for name in wanted if capability >= DTYPES[name][2] and hasattr(self.torch, DTYPES[name][1])]

    def random(self, dtype: str, *shape: int) -> Any:
        """Return normal random numbers: zeros would draw less power, and so run faster, than data do."""
        return self.torch.randn(*shape, device=self.device).to(getattr(self.torch, DTYPES[dtype][1]))

    def backward(self, forward: Callable[[], Any], *leaves: Any) -> Callable[[], object]:
        """Return a call that runs the backward of `forward` down to `leaves`."""
        with self.torch.enable_grad():
            for leaf in leaves:
                leaf.requires_grad_()
            out = forward()
        gradient = self.torch.randn_like(out)
        return lambda: self.torch.autograd.grad(out, leaves, gradient, retain_graph=True)

    def either(self, direction: str, forward: Callable[[], Any], *leaves: Any) -> Callable[[], object]:
        """Return the call of a direction: "fwd", or a backward to `leaves`."""
        return forward if direction == "fwd" else self.backward(forward, *leaves)

    def use_tf32(self, on: bool) -> None:
        """Let fp32 matmuls and convolutions run on matrix units, or not."""
        matmul, cudnn = self.torch.backends.cuda.matmul, self.torch.backends.cudnn
        if hasattr(matmul, "fp32_precision") and hasattr(cudnn, "conv"):
            matmul.fp32_precision = cudnn.conv.fp32_precision = "tf32" if on else "ieee"
        else:
            matmul.allow_tf32 = cudnn.allow_tf32 = on

    def free_memory(self) -> float:
        """Return the bytes that can still be allocated."""
        if self.cuda:
            return float(self.torch.cuda.mem_get_info(self.device)[0])
        with suppress(AttributeError, ValueError, OSError):
            return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        return 4096.0 * MEBI

    def host_time(self, call: Callable[[], object], until_done: bool) -> float:
        """Return microseconds on the host's clock until the call returns, or until the device is done."""
        sync = self.torch.cuda.synchronize if self.cuda else int
        sync()
        begin = time.perf_counter_ns()
        call()
        if until_done:
            sync()
        elapsed = (time.perf_counter_ns() - begin) / THOUSAND
        sync()
        return elapsed

    def device_times(self, call: Callable[[], object], count: int, delay: float, cold: bool) -> list[float]:
        """Return microseconds between events around `count` calls, with `delay` microseconds of busy waiting before."""
        cuda, pairs = self.torch.cuda, []
        for index in range(count):
            if delay or index == 0:
                cuda._sleep(int(2 * THOUSAND * (delay or 100.0)))  # clock cycles, at 2 GHz or less
            if cold and self.buffer is not None:
                self.buffer.sum()
            begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            begin.record()
            call()
            end.record()
            pairs.append((begin, end))
        cuda.synchronize()
        return [begin.elapsed_time(end) * THOUSAND for begin, end in pairs]

    def times(self, case: Workpiece, call: Callable[[], object], seconds: float) -> list[float]:
        """Return the microseconds of as many calls as fit into `seconds`: 3 to 100 of them, or 1,000 in a long case."""
        clock = case.clock if self.cuda else "wall"
        self.host_time(call, until_done=True)  # warm-up: the library chooses its kernel
        delay = 0.0
        if clock == "device":
            issue = min(20 * THOUSAND, *(self.host_time(call, until_done=False) for _ in range(2)))
            first = min(self.device_times(call, 2, 2 * issue, cold=False))
            delay = 1.5 * issue + 20 if first < 2 * issue else 0.0

        def sample(count: int) -> list[float]:
            if clock == "device":
                return self.device_times(call, count, delay, case.cold)
            return [self.host_time(call, clock == "wall") for _ in range(count)]

        begin = time.perf_counter()
        samples = sample(3)
        more = int(3 * seconds / max(time.perf_counter() - begin, 1 / MEBI)) - 3
        return samples + sample(min(more, 997 if case.seconds else 97)) if more > 0 else samples

    def refusal(self, case: Workpiece, left: float) -> str:
        """Return why a case cannot be run, or nothing; `left` is in seconds."""
        predicted = 8 * case.work / self.fastest.get((case.op, case.dtype), float("inf")) / THOUSAND**2
        if left <= max(predicted, case.seconds):
            return "no time left in the budget"
        return "not enough memory" if case.memory > 0.9 * self.free_memory() else ""

    def run(self, case: Workpiece, seconds: float) -> tuple[float, dict[str, object]]:
        """Return the median microseconds of a kernel, and how they were taken."""
        self.use_tf32(case.dtype == "tf32")
        load: dict[str, object] = {}
        watch = threading.Timer(case.seconds / 2, lambda: load.update(clocks(self, "load_")))
        with self.torch.no_grad():
            call = case.make()
            if case.seconds:
                watch.start()
            samples = self.times(case, call, case.seconds or seconds)
        if case.seconds:
            watch.join()
        low, median, high = statistics.quantiles(samples, n=4)
        self.fastest[case.op, case.dtype] = max(self.fastest.get((case.op, case.dtype), 0.0), case.work / median)
        spread = round((high - low) / median, 3)
        how = {"clock": case.clock if self.cuda else "wall", "repeats": len(samples), "spread": spread}
        return median / case.calls, {"l2": "cold" if case.cold and self.cuda else "warm", **how, **load}


def clocks(bench: Bench, prefix: str = "") -> dict[str, object]:
    """Return what nvidia-smi says of driver, clocks and power; nothing where it cannot be asked."""
    names = {
        "driver": "driver_version",
        "sm_clock_mhz": "clocks.sm",
        "memory_clock_mhz": "clocks.mem",
        "max_sm_clock_mhz": "clocks.max.sm",
        "power_w": "power.draw",
        "power_limit_w": "power.limit",
    }
    uuid = str(getattr(bench.torch.cuda.get_device_properties(bench.device), "uuid", "")) if bench.cuda else ""
    which = f"GPU-{uuid}" if uuid else str(bench.device.index)
    command = ["nvidia-smi", f"--query-gpu={','.join(names.values())}", "--format=csv,noheader,nounits", "-i", which]
    with suppress(OSError, subprocess.SubprocessError):
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
        return (
            {prefix + name: value.strip() for name, value in zip(names, answer.split(","), strict=True)}
            if bench.cuda
            else {}
        )
    return {}
