"""Measure how fast a card runs the kernels of neural networks: ``python FILE.py --output card.csv``.

The file stands alone: Python 3.10 and PyTorch 2.0 or later. One row a kernel, in microseconds:

- gemm: C[m, n] = A[m, k] B[k, n]; `a` and `b` in `other` say in which order operands are stored. bmm: `batch` of them.
- conv2d: the implicit matmul m = batch x Hout x Wout, n = Cout, k = Cin / groups x kh x kw; geometry in `other`.
- elementwise, softmax, norms, dropout, embedding: m rows of n. batchnorm: m = batch x H x W of n channels.
- attention: `kv_len` counts the prefix. optimizer: m tensors of n elements. stream, copies: n elements of `dtype`.
- launch_gap: from one tiny kernel to the next on the device. host_issue: what one call takes on the host.

Times are medians. They come from CUDA events behind a delay that lets the host run ahead, so that no host time is in
them (`clock` "wall" and "issue" are the host's). `l2` "cold": a buffer larger than the L2 cache was read before each
repeat (read, since lines left dirty would be written back at the kernel's expense). An event pair itself takes a
microsecond or two: launch_gap, variant event_pair. Rows with a backward `dir` hold the kernels of backward alone.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import importlib
import platform
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from roofsim.calibrate.microbenchmark.kernels import ASKED, GROUPS
from roofsim.calibrate.microbenchmark.timing import COLUMNS, Bench, Workpiece, clocks, row, tell

#: Catalog name of the card that a scenario's kernels are measured for.
CARD: str | None = None
#: The budget that gives a case a tenth of a second.
USUAL_BUDGET = 240.0


def facts_of(bench: Bench) -> dict[str, object]:
    """Return what stands in every row: versions, the device, its clocks and power limit."""
    torch = bench.torch
    facts: dict[str, object] = {"date": datetime.date.today().isoformat(), "torch": str(torch.__version__)}
    if not bench.cuda:
        return {**facts, "processor": platform.processor() or platform.machine(), "threads": torch.get_num_threads()}
    properties = torch.cuda.get_device_properties(bench.device)
    named = {
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "cudnn": torch.backends.cudnn.version(),
        "capability": ".".join(str(part) for part in torch.cuda.get_device_capability(bench.device)),
        "multiprocessors": properties.multi_processor_count,
        "l2_bytes": getattr(properties, "L2_cache_size", None),
        "memory_bytes": properties.total_memory,
    }
    return {**facts, **{name: value for name, value in named.items() if value is not None}, **clocks(bench)}


def warm_up(bench: Bench) -> None:
    """Keep the device busy for a second, so that its clocks are those of work."""
    a = bench.random("fp32", 2048, 2048)
    end = time.perf_counter() + 1.0
    while bench.cuda and time.perf_counter() < end:
        bench.host_time(lambda: a @ a, True)


def attempt(bench: Bench, case: Workpiece, seconds: float) -> tuple[float, dict[str, object]] | None:
    """Return what `Bench.run` does, or say why the case was skipped."""
    try:
        return bench.run(case, seconds)
    except (RuntimeError, TypeError, AttributeError, ValueError, AssertionError) as error:
        reason = "not enough memory" if "out of memory" in str(error).lower() else str(error).strip().split("\n")[0]
        tell(f"skip: {case}: {reason}")
        return None
    finally:
        if bench.cuda:
            bench.torch.cuda.empty_cache()


def measure(
    bench: Bench, groups: list[str], budget: float, write: Callable[[Workpiece, float, dict[str, object]], None]
) -> int:
    """Time the cases of `groups` within `budget` seconds, smallest first; return how many were written."""
    begin, deadline, written = time.perf_counter(), 0.0, 0
    whole = sum(GROUPS[name][0] for name in groups)
    for name in groups:
        share, cases = GROUPS[name]
        deadline += budget * share / whole
        before = written
        for case in sorted(cases(bench), key=lambda case: case.work):
            reason = bench.refusal(case, deadline - (time.perf_counter() - begin))
            if reason:
                tell(f"skip: {case}: {reason}")
                continue
            timing = attempt(bench, case, 0.1 * budget / USUAL_BUDGET)
            if timing is not None:
                write(case, *timing)
                written += 1
        tell(f"{name}: {written - before} rows, {time.perf_counter() - begin:.0f} s since the start")
    return written


def arguments_of(words: list[str] | None) -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Measure how fast a card runs the kernels of neural networks.")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, or cpu (the part that makes sense there)")
    parser.add_argument("--budget", type=float, default=USUAL_BUDGET, help="seconds to spend (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="file to write the table to, a new one (default: standard output)")
    parser.add_argument("--name", default=CARD, help="name of the card in the table (default: the driver's)")
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), help="groups to measure")
    parser.set_defaults(only=list(ASKED) or list(GROUPS))
    arguments = parser.parse_args(words)
    if not arguments.budget > 0:
        parser.error(f"--budget: expected seconds above 0, got {arguments.budget:g}")
    return arguments


def device_of(torch: Any, name: str) -> tuple[Any, str]:
    """Return the device of that name, and what is wrong with it or nothing."""
    try:
        device = torch.device(name)
    except RuntimeError:
        return None, f"--device: expected cuda, cuda:N or cpu, got {name!r}"
    if device.type == "cpu":
        return device, ""
    if device.type != "cuda":
        return None, f"--device: expected cuda, cuda:N or cpu, got {name!r}"
    if not torch.cuda.is_available():
        return None, f"no GPU found by PyTorch {torch.__version__}; to try the script without one: --device cpu"
    device = torch.device("cuda", device.index or 0)
    count = torch.cuda.device_count()
    return device, "" if device.index < count else f"--device: no {name}; PyTorch sees {count} GPU(s), from cuda:0"


def main(words: list[str] | None = None) -> int:
    """Measure and write the table; return 0, or 2 where nothing can be measured, 130 where the user stopped it."""
    arguments = arguments_of(words)
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        tell("PyTorch is not installed for this Python; see https://pytorch.org/get-started")
        return 2
    device, wrong = device_of(torch, arguments.device)
    if wrong:
        tell(wrong)
        return 2
    with ExitStack() as stack:
        table = sys.stdout
        if arguments.output:
            try:
                table = stack.enter_context(arguments.output.open("x", newline="", encoding="utf-8"))
            except OSError as error:
                tell(f"--output: cannot write {arguments.output}: {error.strerror}")
                return 2
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # of settings that later versions will call something else
        return _measure_into(table, torch, device, arguments)


def _measure_into(table: Any, torch: Any, device: Any, arguments: argparse.Namespace) -> int:
    if device.type == "cuda":
        torch.cuda.set_device(device)
    bench = Bench(torch, device)
    warm_up(bench)
    facts = facts_of(bench)
    gpu = arguments.name or (torch.cuda.get_device_name(device) if bench.cuda else "cpu")
    writer = csv.DictWriter(table, COLUMNS, lineterminator="\n")
    writer.writeheader()

    def write(case: Workpiece, time_us: float, how: dict[str, object]) -> None:
        if time_us > 0:
            writer.writerow(row(f"measured:{facts['date']}", gpu, case, {**how, **facts}, time_us))
            table.flush()

    try:
        measure(bench, arguments.only, arguments.budget, write)
    except KeyboardInterrupt:
        tell("stopped; the rows written so far are good")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
