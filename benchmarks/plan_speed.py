"""Time `roofsim.plan` over large spaces of layouts: seconds, layouts decided per second, memory, and how good the certificate is.

    python benchmarks/plan_speed.py [--only NAME] [--growth] [--record]

A layout is decided when it was priced, found not to fit, refused by a rule, or cut by a lower bound that exceeds the best;
*decided/s* has all that a search takes, *bounded/s* bounds alone, with the tenth best step as the limit. The
clock of the process is given beside that of the wall: it does not see what else the machine does. *start* is the import of roofsim
and the first `run`, which loads the catalog; the search begins behind it. Each row is measured in a process of its own.

What the options of Calculon's search are here, and how many of its 9,259,840 executions a scenario can tell apart:
`benchmarks/calculon_space.py`. *Calculon's axes* are those that a plan has by itself; *all of Calculon's options* has the facts of
the engine beside them, tensor groups of several nodes and micro batches of up to 4,096.
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

import roofsim
from benchmarks.calculon_space import ALL_AXES, AXES, BATCH, GPUS
from benchmarks.results import record, table
from roofsim.plans import planning_tools
from roofsim.search.planning.asked import PlanRequest
from roofsim.search.planning.blocks import MOST_ROWS, SearchInput
from roofsim.search.planning.findings import Findings
from roofsim.search.planning.search import ClassSearch, Limits
from roofsim.spec.scenario.document import load_scenario

MEGATRON = {"engine": "megatron-core", "precision": "bf16"}
CASES: dict[str, dict[str, Any]] = {
    "gpt3-175b, 1,024 A100": {
        "scenario": {"model": "gpt3-175b", "workload": MEGATRON | {"global_batch_size": 1536}},
        "gpu": "a100-sxm4-80gb",
        "gpus": 1024,
    },
    "gpt3-175b, 1,024 A100, Calculon's axes": {
        "scenario": {"model": "gpt3-175b", "workload": MEGATRON | {"global_batch_size": BATCH}},
        "gpu": "a100-sxm4-80gb",
        "gpus": GPUS,
        "axes": AXES,
    },
    "gpt3-175b, 1,024 A100, all of Calculon's options": {
        "scenario": {"model": "gpt3-175b", "workload": MEGATRON | {"global_batch_size": BATCH}},
        "gpu": "a100-sxm4-80gb",
        "gpus": GPUS,
        "axes": ALL_AXES,
    },
    "deepseek-v3, 2,048 H800": {
        "scenario": {
            "model": "deepseek-v3",
            "workload": MEGATRON | {"global_batch_size": 15360, "sequence_length": 4096},
        },
        "gpu": "h800-sxm-80gb",
        "gpus": 2048,
    },
} | {
    f"llama3-405b, {gpus:,} H100": {
        "scenario": {
            "model": "llama3-405b",
            "workload": MEGATRON | {"global_batch_size": 2048, "sequence_length": 8192},
        },
        "gpu": "h100-sxm5-80gb",
        "gpus": gpus,
    }
    for gpus in (512, 1024, 2048, 4096, 8192, 16384)
}
#: How time grows with layouts: GPUs, whether parts of the state may be on the host, and how many batches are tried.
GROWTH = (
    (64, False, 1),
    (1024, False, 1),
    (1024, True, 1),
    (1024, True, 8),
    (1024, True, 80),
    (1024, True, 800),
    (1024, True, 8000),
)
#: GPT-3 175B, its layers apart.
GPT3 = {
    "family": "decoder", "hidden_size": 12288, "num_attention_heads": 96, "vocab_size": 51200, "max_sequence_length": 2048,
    "dropout": 0.1, "fused_query_key_value": True,
}  # fmt: skip
#: Layers of the model that is searched with each of these: how time grows with layers.
LAYERS = (24, 48, 96, 192, 384)
HEADS = (
    *("search", "layouts", "refused", "do not fit", "cut", "priced", "programs", "wall s", "process s", "start s"),
    *("decided/s", "bounded/s", "step s", "bound/best", "MiB"),
)


def growing() -> dict[str, dict[str, Any]]:
    """Return searches that grow in layouts, and in layers.

    Batches are the multiples of 1,536, the objective is the step: most of the layouts of larger ones are cut by their bounds.
    """
    base = CASES["gpt3-175b, 1,024 A100"]
    layouts = {}
    for gpus, offloads, batches in GROWTH:
        axes: dict[str, list[Any]] = {"parallel.offload": AXES["parallel.offload"]} if offloads else {}
        if batches > 1:
            axes["workload.global_batch_size"] = [1536 * each for each in range(1, batches + 1)]
        said = f"{', offload' if offloads else ''}{f', {batches} batches' if batches > 1 else ''}"
        layouts[f"gpt3-175b, {gpus:,} A100{said}"] = base | {"gpus": gpus, "axes": axes}
    layers = {
        f"gpt3-175b with {number} layers, 1,024 A100": base
        | {"scenario": base["scenario"] | {"model": GPT3 | {"num_layers": number}}}
        for number in LAYERS
    }
    return layouts | layers


def bounded(case: dict[str, Any]) -> dict[str, Any]:
    """Bound the layouts of a case, none of which is resolved or priced, with the best step of the search as the limit."""
    asked = PlanRequest.of(case["gpus"], case["gpu"], "step_time", (), case.get("axes") or {}, ())
    given = SearchInput(
        document=load_scenario(case["scenario"], {}), asked=asked, tools=planning_tools(), k=10, cuts=True
    )
    space = given.space()
    searcher = given.searcher(space)
    layouts, left, seconds, limit = 0, 0, 0.0, Limits(case["limit"])
    for families in searcher.classes():
        rows = families.rows()
        searcher.bound(families, rows[:1])  # prices the layers
        began = time.process_time()
        for first in range(0, len(rows), MOST_ROWS):
            some = rows[first : first + MOST_ROWS]
            search = ClassSearch(searcher, families, Findings(), limit)
            left += sum(map(len, searcher.hopeful(families, some, search)))
            layouts += int(families.times(some).sum())
        seconds += time.process_time() - began
    return {"layouts": layouts, "left": left, "process s": seconds, "bounded/s": layouts / seconds}


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Search the layouts of a case."""
    began = time.process_time()
    roofsim.run("gpt2", gpu="a100")
    start = time.process_time() - began
    wall, own = time.perf_counter(), time.process_time()
    plan = roofsim.plan(case["scenario"], gpus=case["gpus"], gpu=case["gpu"], axes=case.get("axes"))
    wall, own = time.perf_counter() - wall, time.process_time() - own
    bound = plan.lower_bound
    return {
        "layouts": plan.considered,
        "refused": sum(plan.refused.values()),
        "do not fit": plan.does_not_fit,
        "cut": plan.cut,
        "priced": plan.priced,
        "programs": plan.structures,
        "wall s": wall,
        "process s": own,
        "start s": start,
        "decided/s": plan.considered / own,
        "step s": None if plan.best is None else plan.best.step_time,
        "bound/best": None if bound is None or plan.best is None else bound / plan.best.step_time,
        "bounded/s": None if plan.best is None else bounded(case | {"limit": plan.top[-1].step_time})["bounded/s"],
        "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measured_apart(name: str) -> dict[str, Any]:
    """Return what a process of its own measures."""
    done = subprocess.run([sys.executable, __file__, "--one", name], check=True, capture_output=True, text=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {"search": name, **answer}


def _said(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def drawn(rows: list[dict[str, Any]], path: str) -> None:
    """Draw how the seconds of a core grow with layouts, and of those the ones that bounds alone take; and with layers."""
    from matplotlib.figure import Figure

    named = {f"gpt3-175b with {number} layers, 1,024 A100": number for number in LAYERS}
    figure = Figure(figsize=(9.0, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, label, known in (
        (left, "layouts of the space", [(row["layouts"], row) for row in rows if row["search"] not in named]),
        (right, "layers of the model", [(named[row["search"]], row) for row in rows if row["search"] in named]),
    ):
        known.sort(key=lambda pair: pair[0])
        places = [place for place, _ in known]
        axes.loglog(places, [row["process s"] for _, row in known], "o-", label="whole search, with its certificate")
        axes.loglog(places, [row["layouts"] / row["bounded/s"] for _, row in known], "s--", label="bounds alone")
        axes.set(xlabel=label)
        axes.grid(visible=True, alpha=0.3)
    left.set(ylabel="seconds of one core")
    left.legend()
    right.set_xticks(LAYERS, [str(number) for number in LAYERS])
    right.minorticks_off()
    figure.savefig(path)


def main() -> None:
    """Print a table of searches."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="searches whose name has this text")
    parser.add_argument("--growth", action="store_true", help="how time grows with layouts and with layers")
    parser.add_argument("--plot", help="picture of the growth: seconds of a core over layouts, and over layers")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure((CASES | growing())[options.one])))
        return
    rows = [measured_apart(name) for name in (growing() if options.growth else CASES) if options.only in name]
    print(table(HEADS, [[_said(row[head]) for head in HEADS] for row in rows]))
    if options.plot:
        drawn(rows, options.plot)
    if options.record:
        print(record("plan-growth" if options.growth else "plan-speed", {"rows": rows}))


if __name__ == "__main__":
    main()
