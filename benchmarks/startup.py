"""Time the command line cold, and a run in a process that is warm: medians of five."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import roofsim

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "roofsim --help": [sys.executable, "-m", "roofsim", "--help"],
    "roofsim run gpt.yaml --gpu a100": [sys.executable, "-m", "roofsim", "run", "gpt.yaml", "--gpu", "a100"],
}


def _median(action, repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure() -> dict[str, float]:
    """Return seconds by command, and of one warm run of llama3-8b."""
    found = {
        name: _median(lambda command=command: subprocess.run(command, cwd=ROOT, check=True, capture_output=True))
        for name, command in COMMANDS.items()
    }

    def warm() -> None:
        roofsim.run("llama3-8b", micro_batch_size=1, sequence_length=2048, gpu="h100", precision="bf16")

    warm()
    found["warm roofsim.run of llama3-8b"] = _median(warm)
    return found
