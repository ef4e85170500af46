"""Run as many inputs as one likes: ``python -m tests.fuzz --inputs 34000``.

Each surface runs in a process of its own, so that a crash of the interpreter is one failure among the others. Exit code 1 when any
input got neither an answer nor a clean refusal.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.runner import SURFACES, Tally, numbers_of, run_inputs

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Run what the arguments say; return the exit code."""
    arguments = _arguments()
    if arguments.surface and len(arguments.surface) == 1:
        return _one(arguments.surface[0], arguments)
    ends: dict[str, int] = {}
    failed = 0
    for surface in arguments.surface or SURFACES:
        counts = _apart(surface, numbers_of(surface, arguments.inputs), arguments)
        failed += counts.pop("failed")
        for end, count in counts.items():
            ends[end] = ends.get(end, 0) + count
    print(f"all: {sum(ends.values())} inputs: {_shown(ends)}")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=1000, help="how many, over all surfaces")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--surface", action="append", choices=list(SURFACES), help="one of them; may be given again")
    parser.add_argument("--first", type=int, default=0, help="number of the first input of each surface")
    parser.add_argument("--progress", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _one(surface: str, arguments: argparse.Namespace) -> int:
    """Run inputs of one surface in this process; `--progress` keeps the number of the one that runs, and the ends at last."""
    tally, start = Tally(), time.monotonic()
    note = None if arguments.progress is None else lambda number: arguments.progress.write_text(str(number))
    run_inputs(surface, arguments.seed, arguments.first, arguments.inputs, tally, note)
    for failure in tally.failures:
        print(failure, flush=True)
    slowest = f"slowest {tally.slowest[0]:.1f} s ({tally.slowest[1]})"
    print(
        f"{surface}: {arguments.inputs} inputs in {time.monotonic() - start:.0f} s, {slowest}: {_shown(tally.ends)}",
        flush=True,
    )
    if arguments.progress is not None:
        arguments.progress.write_text(json.dumps(dict(tally.ends)))
    return 1 if tally.failures else 0


def _apart(surface: str, inputs: int, arguments: argparse.Namespace) -> dict[str, int]:
    """Run inputs of a surface in processes of their own, the next from behind the input that ended one."""
    first, last, ends = arguments.first, arguments.first + inputs, {"failed": 0}
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder) / "progress"
        while first < last:
            words = [
                "--surface",
                surface,
                "--seed",
                arguments.seed,
                "--first",
                first,
                "--inputs",
                last - first,
                "--progress",
                progress,
            ]
            process = subprocess.run([sys.executable, "-m", "tests.fuzz", *map(str, words)], cwd=ROOT, check=False)
            state = json.loads(progress.read_text() or "0") if progress.exists() else first
            if isinstance(state, dict):
                ends["failed"] += process.returncode != 0
                return {end: ends.get(end, 0) + state.get(end, 0) for end in {*ends, *state}}
            print(
                f"{surface}: input {state} of seed {arguments.seed} ended the interpreter with {process.returncode}",
                flush=True,
            )
            ends["failed"] += 1
            ends["a crash"] = ends.get("a crash", 0) + 1
            first = state + 1
    return ends


def _shown(ends: dict[str, int]) -> str:
    return ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))


if __name__ == "__main__":
    sys.exit(main())
