"""Time answers in a process that is warm: of a structure that it has not seen, and of one that it has; processor seconds, medians.

    python benchmarks/warm.py [--repeats 5] [--record] [--before benchmarks/results/warm-....json]

*new*: nothing of the scenario's structure is kept. *again*: the same question once more. *sizes*: with another batch or
length, where two others were asked for. `--before` prints the ratio to a recorded table.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import roofsim
from benchmarks.results import record, table

if TYPE_CHECKING:
    from collections.abc import Callable

#: verb, model, and the rest of the scenario.
CASES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "gpt": ("run", "gpt", {"gpu": "a100"}),
    "resnet50": ("run", "resnet50", {"gpu": "a100", "batch_size": 64}),
    "llama3-70b, 512 GPUs": (
        "run", "llama3-70b",
        {"gpu": "h100", "gpus": 512, "tp": 8, "pp": 8, "global_batch_size": 512, "sequence_length": 4096,
         "engine": "megatron-core"},
    ),
    "deepseek-v3, 256 GPUs": (
        "run", "deepseek-v3",
        {"gpu": "h100", "gpus": 256, "pp": 16, "ep": 8, "global_batch_size": 512, "sequence_length": 4096,
         "engine": "megatron-core"},
    ),
    "SDXL": ("run", "sdxl-pipeline", {"gpu": "a100", "phase": "forward"}),
    "serve llama3-8b": ("serve", "llama3-8b", {"gpu": "h100", "prompt_length": "1k", "output_length": 256, "request_rate": 5}),
    "serve llama3-70b": (
        "serve", "llama3-70b", {"gpu": "h100", "tp": 4, "engine": "sglang", "prompt_length": "2k", "output_length": 512},
    ),
    "fit llama3-405b": ("fit", "llama3-405b", {"gpu": "h100", "fewest": "gpus", "sequence_length": "4k"}),
    "96 stages, 4,032 micro batches": (
        "run", {"family": "decoder", "num_layers": 192, "hidden_size": 12288, "num_attention_heads": 96, "vocab_size": 51200},
        {"gpu": "a100", "gpus": 768, "tp": 8, "pp": 96, "virtual_stages": 2, "schedule": "interleaved", "global_batch_size": 4032,
         "sequence_length": 2048, "engine": "megatron-core"},
    ),
}  # fmt: skip

#: What is another number in other scenarios of a structure, and three of these numbers.
SIZES: dict[str, tuple[str, tuple[int, int, int]]] = {
    "gpt": ("batch_size", (2, 4, 6)),
    "resnet50": ("batch_size", (32, 96, 128)),
    "llama3-70b, 512 GPUs": ("sequence_length", (2048, 3072, 8192)),
    "deepseek-v3, 256 GPUs": ("sequence_length", (2048, 3072, 8192)),
    "SDXL": ("batch_size", (2, 3, 4)),
    "96 stages, 4,032 micro batches": ("sequence_length", (1024, 1536, 4096)),
}

#: What a case may take of the time that it took before the house was rebuilt: of a structure that is new, and of one that was seen.
GOALS: tuple[float, float] = (0.2, 0.1)


def _forget() -> None:
    with suppress(ImportError):  # versions before there was something to forget
        importlib.import_module("roofsim.structures").forget()


def _seconds(ask: Callable[[], object]) -> float:
    start = time.process_time()
    ask()
    return time.process_time() - start


def measure(repeats: int = 5) -> dict[str, float]:
    """Return the processor's seconds of each case, new, again, and with other sizes."""
    medians: dict[str, float] = {}
    for name, (verb, model, others) in CASES.items():

        def ask(verb: str = verb, model: Any = model, others: dict[str, Any] = others) -> None:
            getattr(roofsim, verb)(model, **others)

        ask()  # imports, catalogs
        seconds: dict[str, list[float]] = {"new": [], "again": []}
        for _ in range(repeats):
            _forget()
            seconds["new"].append(_seconds(ask))
            seconds["again"].append(_seconds(ask))
            if name in SIZES:
                size, (first, second, third) = SIZES[name]
                for number in (first, second):
                    ask(others=others | {size: number})
                seconds.setdefault("sizes", []).append(_seconds(partial(ask, others=others | {size: third})))
        medians |= {f"{name}: {way}": statistics.median(each) for way, each in seconds.items()}
    return medians


def main() -> None:
    """Print milliseconds, beside those of a recorded table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--before", type=Path, default=None)
    options = parser.parse_args()
    before = {} if options.before is None else json.loads(options.before.read_text(encoding="utf-8"))["seconds"]
    seconds = measure(options.repeats)
    rows = []
    for name in CASES:
        row = [name]
        for way in ("new", "again", "sizes"):
            # Before, other sizes were a new structure.
            now = seconds.get(f"{name}: {way}")
            old = before.get(f"{name}: {way}", before.get(f"{name}: new"))
            if now is None:
                row += ["", "", ""]
                continue
            row += [
                "" if old is None else f"{1e3 * old:.1f}",
                f"{1e3 * now:.1f}",
                "" if old is None else f"{now / old:.2f}",
            ]
        rows.append(tuple(row))
    print(
        table(
            (
                "case",
                "new before",
                "new",
                f"ratio (goal {GOALS[0]})",
                "again before",
                "again",
                f"ratio (goal {GOALS[1]})",
                "sizes before",
                "sizes",
                "ratio",
            ),
            rows,
        )
    )
    if options.record:
        print(record("warm", {"repeats": options.repeats, "seconds": seconds}))


if __name__ == "__main__":
    main()
