"""Sweep resnet50 and llama3-8b over batch, length or image size, bandwidth and peak: how time grows with points and with layers.

    python benchmarks/sweep_growth.py [--most 1e7] [--only llama3-8b] [--layers] [--plot FILE] [--record]

Every row is measured in a process of its own, in the processor's seconds of one core. *first*: nothing is known of the scenario.
*again*: the same sweep once more, replayed. *difference*: the largest of twelve random points against `roofsim.run` of the same
scenario. Calculon (github.com/calculon-ai/calculon) states some 240 strategies a second and core: one of its evaluations of a
decoder against one point here, which is no layout but a size and a card.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import roofsim
from benchmarks.results import record, table

#: Strategies a second and core.
CALCULON = 240.0
CHECKED = 12
#: Points up to which a sweep is repeated: beyond, tracing its program is no share of it.
TWICE = 2e6
#: Points of the largest table; beyond, parts of the first axis are swept one after the other, and the best of each is kept.
WHOLE = 1.1e7
#: Card, batch sizes and what is as long as an image or a text, of each model.
MODELS: dict[str, dict[str, Any]] = {
    "resnet50": {
        "gpu": "a100",
        "length": "workload.image_size",
        "step": 8,
        "first": 128,
        "peak": 312.0,
        "bandwidth": 4.0,
    },
    "llama3-8b": {
        "gpu": "h100",
        "length": "workload.sequence_length",
        "step": 256,
        "first": 256,
        "peak": 989.0,
        "bandwidth": 8.0,
    },
}
#: The decoder whose depth grows: llama3-8b, its layers apart.
DECODER = {
    "family": "decoder", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
    "vocab_size": 128256, "gated_mlp": True, "normalization": "rmsnorm", "position_embedding": "rotary",
    "max_sequence_length": 131072,
}  # fmt: skip
DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128)
HEADS = (
    *("model", "layers", "points", "possible", "programs", "first s", "again s", "points/s", "us a point"),
    *("of Calculon's rate", "difference", "MiB"),
)


def axes_of(name: str, points: float) -> dict[str, list[Any]]:
    """Return axes of about as many points: sizes, and four times as many values of what the card does."""
    model = MODELS[name]
    sizes = max(round((points / 16.0) ** 0.25), 2)
    rates = max(round((points / sizes**2) ** 0.5), 2)
    return {
        "workload.batch_size" if name == "resnet50" else "workload.micro_batch_size": list(range(1, sizes + 1)),
        model["length"]: [model["first"] + model["step"] * place for place in range(sizes)],
        "hardware.override.gpu.memory.bandwidth": [
            f"{each:.9g} TB/s" for each in np.linspace(1.0, model["bandwidth"], rates)
        ],
        "hardware.override.gpu.peak.bf16": [f"{each:.9g} TFLOP/s" for each in np.linspace(100.0, model["peak"], rates)],
    }


def parts_of(axes: dict[str, list[Any]]) -> list[dict[str, list[Any]]]:
    """Return a space in parts of at most `WHOLE` points, or of one value of its first axis."""
    key, values = next(iter(axes.items()))
    others = int(np.prod([len(own) for own in axes.values()])) // len(values)
    step = max(int(WHOLE // others), 1)
    return [axes | {key: values[place : place + step]} for place in range(0, len(values), step)]


def measure(name: str, points: float, layers: int) -> dict[str, Any]:
    """Sweep, and run a sample of the points alone."""
    roofsim.run("gpt2", gpu="a100")  # imports, catalogs
    axes, model = axes_of(name, points), DECODER | {"num_layers": layers} if layers else name
    others = {"precision": "bf16", "gpu": MODELS[name]["gpu"]}
    start, again, programs, count, possible, worst, best = time.process_time(), None, 0, 0, 0, 0.0, np.inf
    first = 0.0
    for part in parts_of(axes):
        swept = roofsim.sweep(model, part, figures=["step_time"], **others)
        first += time.process_time() - start
        programs += swept.evaluated.structures
        count += len(swept)
        possible += int(swept.feasible.sum())
        best = min(best, float(swept["step_time"].ravel()[swept.best() or 0]))
        if points <= TWICE:
            start = time.process_time()
            swept = roofsim.sweep(model, part, figures=["step_time"], **others)
            again = time.process_time() - start
        for place in np.random.default_rng(0).integers(0, len(swept), CHECKED if points <= WHOLE else 2):
            at = np.unravel_index(place, swept.shape)
            point = {key: values[index] for (key, values), index in zip(part.items(), at, strict=True)}
            if swept.feasible[at]:
                worst = max(worst, abs(roofsim.run(model, **others, **point).step_time / swept["step_time"][at] - 1.0))
        start = time.process_time()
    rate = count / (first if again is None else again)
    return {
        "model": name,
        "layers": layers or "",
        "points": count,
        "possible": possible,
        "programs": programs,
        "first s": first,
        "again s": again,
        "points/s": rate,
        "us a point": 1e6 / rate,
        "of Calculon's rate": rate / CALCULON,
        "difference": worst,
        "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measured_apart(*case: Any) -> dict[str, Any]:
    """Return what a process of its own measures."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", json.dumps(case)], check=True, capture_output=True, text=True
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _said(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100.0 else f"{value:.2g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def drawn(rows: list[dict[str, Any]], path: str) -> None:
    """Draw how the seconds of a core grow with points, or with layers."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    axes = figure.add_subplot()
    over = "layers" if rows[0]["layers"] else "points"
    for name in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == name]
        for seconds, style in (("first s", "o-"), ("again s", "s--")):
            label = f"{name}, {seconds.split()[0]}"
            known = [row for row in own if row[seconds] is not None]
            axes.loglog([row[over] for row in known], [row[seconds] for row in known], style, label=label)
    axes.set(xlabel=over, ylabel="seconds of one core")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(path)


def main() -> None:
    """Print a table of sweeps."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--most", type=float, default=1e7, help="points of the largest sweep")
    parser.add_argument("--only", default="", help="models whose name has this text")
    parser.add_argument("--layers", action="store_true", help="how time grows with layers, of 65,536 points")
    parser.add_argument("--plot", help="picture of the growth")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*json.loads(options.one))))
        return
    powers = [10.0**power for power in range(4, 10) if 10.0**power <= options.most]
    cases = [("llama3-8b", 65_536.0, depth) for depth in DEPTHS]
    if not options.layers:
        cases = [(name, points, 0) for name in MODELS if options.only in name for points in powers]
    rows = []
    for case in cases:
        rows.append(measured_apart(*case))
        print(f"{case}: {rows[-1]['first s']:.1f} s", file=sys.stderr, flush=True)
    print(table(HEADS, [[_said(row[head]) for head in HEADS] for row in rows]))
    if options.plot:
        drawn(rows, options.plot)
    if options.record:
        print(record("sweep-layers" if options.layers else "sweep-growth", {"rows": rows}))


if __name__ == "__main__":
    main()
