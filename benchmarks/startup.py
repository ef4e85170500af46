"""Time commands in fresh processes, as multiples of `python -c pass`: seconds of processor, medians of interleaved runs.

    python benchmarks/startup.py [--repeats 15] [--record]

The bytecode of all modules is compiled, as an installer leaves it. Runs are interleaved, so that whatever else the machine does
slows all commands alike; ratios are what to compare. `--record` writes benchmarks/results/startup-DATE.json.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.results import record, table

ROOT = Path(__file__).resolve().parents[1]
BARE = "python -c pass"
#: What to run, and the ratio to `python -c pass` that it should stay below; None: for comparison.
COMMANDS: dict[str, tuple[list[str], float | None]] = {
    BARE: (["-c", "pass"], None),
    "python -c 'import numpy'": (["-c", "import numpy"], None),
    "roofsim --help": (["-m", "roofsim", "--help"], 6.0),
    "roofsim run --help": (["-m", "roofsim", "run", "--help"], 20.0),
    "roofsim run gpt.yaml --gpu a100": (["-m", "roofsim", "run", "gpt.yaml", "--gpu", "a100"], 25.0),
    "roofsim run gpt.yaml --gpu a100 --json": (["-m", "roofsim", "run", "gpt.yaml", "--gpu", "a100", "--json"], 25.0),
    "roofsim run resnet50 --gpu h100": (["-m", "roofsim", "run", "resnet50", "--gpu", "h100"], None),
    "roofsim list gpus": (["-m", "roofsim", "list", "gpus"], None),
}


def _seconds(arguments: list[str], environment: dict[str, str]) -> float:
    """Return the processor's seconds, of the user and of the system, that a fresh interpreter takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(repeats: int = 7) -> dict[str, float]:
    """Return the processor's seconds of each command: the median of interleaved runs."""
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONPATH": str(ROOT)}
        for arguments, _ in COMMANDS.values():
            _seconds(arguments, environment)  # compiles what it imports
        runs: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for _ in range(repeats):
            for name, (arguments, _) in COMMANDS.items():
                runs[name].append(_seconds(arguments, environment))
    return {name: statistics.median(values) for name, values in runs.items()}


def main() -> None:
    """Print milliseconds and ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    seconds = measure(options.repeats)
    ratios = {name: value / seconds[BARE] for name, value in seconds.items()}
    rows = [
        (name, f"{1e3 * seconds[name]:.1f}", f"{ratios[name]:.1f}", "" if goal is None else f"{goal:g}")
        for name, (_, goal) in COMMANDS.items()
    ]
    print(table(("command", "ms", f"x {BARE}", "at most"), rows))
    if options.record:
        print(record("startup", {"repeats": options.repeats, "seconds": seconds, "ratios": ratios}))


if __name__ == "__main__":
    main()
