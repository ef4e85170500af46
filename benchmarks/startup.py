"""Time commands in fresh processes, as multiples of `python -c pass`: seconds of processor, medians of interleaved runs.

    python benchmarks/startup.py [--repeats 15] [--record] [--calculon FOLDER]

The bytecode of all modules is compiled, as an installer leaves it. Runs are interleaved, so that whatever else the machine does
slows all commands alike; ratios are what to compare. `--record` writes benchmarks/results/startup-DATE.json.

`--calculon` times Calculon on the same question as gpt.yaml: one training step of the same GPT on one A100, all results printed.
FOLDER is a copy of its repository (it is on no package index; the package `calculon` there is another program):

    git clone https://github.com/calculon-ai/calculon
    pip install psutil pandas        # its commands import them
    python benchmarks/startup.py --calculon calculon
"""

from __future__ import annotations

import argparse
import json
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
CALCULON = "calculon llm"
#: The scenario of gpt.yaml in Calculon's words. Its models have no vocabulary and so no head; float16 is as wide as bf16.
CALCULON_MODEL = {
    "hidden": 768, "feedforward": 3072, "seq_size": 1024, "attn_heads": 12, "attn_size": 64, "num_blocks": 12,
}  # fmt: skip
CALCULON_EXECUTION = {
    "num_procs": 1, "tensor_par": 1, "pipeline_par": 1, "data_par": 1,
    "tensor_par_net": 0, "pipeline_par_net": 0, "data_par_net": 0,
    "batch_size": 8, "microbatch_size": 8, "datatype": "float16",
    "fused_activation": False, "attention_type": "multihead", "activation_recompute": "none",
    "pipeline_interleaving": 1, "optimizer_sharding": False, "tensor_par_comm_type": "ar", "tensor_par_overlap": "none",
    "seq_par_ag_redo": False, "data_par_overlap": False,
    "weight_offload": False, "activations_offload": False, "optimizer_offload": False, "training": True,
}  # fmt: skip


def calculon_command(folder: Path, scratch: Path) -> list[str]:
    """Return the arguments of an interpreter that run Calculon on the scenario of gpt.yaml; its input is written to `scratch`.

    Raises
    ------
    SystemExit
        Where the folder is no copy of Calculon's repository.
    """
    program, system = folder.resolve() / "bin" / "calculon", folder.resolve() / "systems" / "a100_80g.json"
    missing = [path.relative_to(folder.resolve()) for path in (program, system) if not path.is_file()]
    if missing:
        raise SystemExit(
            f"--calculon {folder}: no {' and no '.join(map(str, missing))} there; expected a copy of its repository"
        )
    model, execution = scratch / "model.json", scratch / "execution.json"
    model.write_text(json.dumps(CALCULON_MODEL), encoding="utf-8")
    execution.write_text(json.dumps(CALCULON_EXECUTION), encoding="utf-8")
    return [str(program), "llm", str(model), str(execution), str(system), "-"]


def _seconds(arguments: list[str], environment: dict[str, str]) -> float:
    """Return the processor's seconds, of the user and of the system, that a fresh interpreter takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise SystemExit(f"python {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr or done.stdout}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(repeats: int = 7, calculon: Path | None = None) -> dict[str, float]:
    """Return the processor's seconds of each command, the median of interleaved runs; `calculon`: a copy of it to time too."""
    with tempfile.TemporaryDirectory() as scratch:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPYCACHEPREFIX": str(Path(scratch) / "bytecode"), "PYTHONPATH": str(ROOT)}
        commands = {name: (arguments, environment) for name, (arguments, _) in COMMANDS.items()}
        if calculon is not None:
            own = environment | {"PYTHONPATH": str(calculon.resolve())}
            commands[CALCULON] = calculon_command(calculon, Path(scratch)), own
        for command in commands.values():
            _seconds(*command)  # compiles what it imports
        runs: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(repeats):
            for name, command in commands.items():
                runs[name].append(_seconds(*command))
    return {name: statistics.median(values) for name, values in runs.items()}


def main() -> None:
    """Print milliseconds and ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--calculon", type=Path, default=None, metavar="FOLDER", help="a copy of Calculon's repository")
    options = parser.parse_args()
    seconds = measure(options.repeats, options.calculon)
    ratios = {name: value / seconds[BARE] for name, value in seconds.items()}
    rows = []
    for name in seconds:
        goal = COMMANDS.get(name, ([], None))[1]
        rows.append((name, f"{1e3 * seconds[name]:.1f}", f"{ratios[name]:.1f}", "" if goal is None else f"{goal:g}"))
    print(table(("command", "ms", f"x {BARE}", "at most"), rows))
    if options.record:
        print(record("startup", {"repeats": options.repeats, "seconds": seconds, "ratios": ratios}))


if __name__ == "__main__":
    main()
