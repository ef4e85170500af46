"""Compare what `roofsim plan` proposes for large published runs with what their authors ran, and the orders of published tables.

    python benchmarks/plan_published.py [--only NAME] [--jobs 2] [--record]

First table: each run is searched with its model, card, GPUs, batch, precision and engine; the layout that its authors ran is
predicted as well. *gain* is the predicted step of the authors' layout over that of the winner; it *exceeds* when the 80 % interval
of that ratio, in which errors that both share cancel, leaves out 1. Authors may have had reasons that no model of a step knows (the
engine of the day, memory that was left free, failures).

Second table: where a source measured several layouts of one model on as many GPUs, Kendall's tau between the measured and the
predicted order, and the place of the layout that was truly fastest in the predicted order.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scipy.stats import kendalltau

import roofsim
from benchmarks.results import record, table
from roofsim.analyze.ratio import speedup_interval
from roofsim.report import words
from roofsim.report.plan import one_layout
from roofsim.search.planning.answer import Planned

if TYPE_CHECKING:
    from collections.abc import Iterator

MEASUREMENTS = Path(__file__).resolve().parents[1] / "evidence" / "measurements"
#: A source whose rows are sums of parts that were measured, and no measured steps.
COMPOSED = "vtrain-composed"
#: Layouts that a published table needs for an order to say something.
LEAST = 3


class Published(NamedTuple):
    """A run as it was published: its scenario with the layout, the measured step in seconds, and where that is stated."""

    name: str
    scenario: dict[str, Any]
    measured: float | None
    source: str


#: Name of a run -> the measurement in evidence/measurements that states it.
MEASURED = {
    "Megatron 175B, 64 A100": "megatron-recompute-0057",
    "Megatron 530B, 280 A100": "megatron-recompute-0060",
    "Megatron 1T, 512 A100": "megatron-recompute-0063",
    "MLPerf 405B, 512 H100": "mlperf-v5.0-61",
    "MLPerf 405B, 8,192 H100": "mlperf-v5.0-57",
}
MT_NLG = Published(
    "MT-NLG 530B, 2,240 A100",
    {
        "model": "turing-530b",
        "workload": {
            "engine": "megatron-deepspeed", "precision": "bf16", "sequence_length": 2048, "global_batch_size": 1920,
            "micro_batch_size": 1, "recompute": "full",
        },
        "parallel": {"tensor": 8, "pipeline": 35},
        "hardware": {"gpu": "a100-sxm4-80gb", "gpus": 2240},
    },
    60.1,
    "arXiv 2201.11990, section 2.4: 280 DGX A100, 8 x 35 ranks per replica, batch 1,920",
)  # fmt: skip
BLOOM = Published(
    "BLOOM 176B, 384 A100",
    {
        "model": "bloom-176b",
        "workload": {
            "engine": "megatron-deepspeed", "precision": "bf16", "sequence_length": 2048, "global_batch_size": 2048,
            "micro_batch_size": 2, "recompute": "full",
        },
        "parallel": {"tensor": 4, "pipeline": 12, "sharding": "optimizer"},
        "hardware": {"gpu": "a100-sxm4-80gb", "system": "jean-zay-a100", "gpus": 384},
    },
    None,
    "arXiv 2211.05100, section 3.4: tensor 4, pipeline 12, data 8; some 150 TFLOP/s per GPU",
)  # fmt: skip
LLAMA = Published(
    "Llama 405B, 16,384 H100",
    {
        "model": "llama3.1-405b",
        "workload": {
            "engine": "megatron-core", "precision": "bf16", "sequence_length": 8192, "global_batch_size": 2048,
            "micro_batch_size": 1,
        },
        "parallel": {
            "tensor": 8, "pipeline": 16, "virtual_stages": 4, "schedule": "interleaved", "sharding": "optimizer", "sequence": True,
            "account_for_embedding": True, "account_for_loss": True,
        },
        "hardware": {"gpu": "h100-sxm5-80gb", "gpus": 16384},
    },
    None,
    "arXiv 2407.21783, table 4: tensor 8, pipeline 16, data 128, 400 TFLOP/s per GPU; here as megatron-core runs it",
)  # fmt: skip


def measurements() -> dict[str, dict[str, Any]]:
    """Return measured steps of several GPUs by their names."""
    rows = {}
    for name in ("multi-gpu", "mlperf-training"):
        for line in (MEASUREMENTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row["quantity"] == "step_time" and row["source"] != COMPOSED:
                rows[row["name"]] = row
    return rows


def published(rows: dict[str, dict[str, Any]]) -> list[Published]:
    """Return the runs that are searched."""
    stated = [
        Published(name, rows[key]["scenario"], rows[key]["measured"], rows[key]["citation"])
        for name, key in MEASURED.items()
    ]
    return [*stated, BLOOM, MT_NLG, LLAMA]


def compare(run: Published, jobs: int) -> dict[str, Any]:
    """Return what a search proposes for a published run, and what is predicted of the authors' layout."""
    plan = roofsim.plan(run.scenario, jobs=jobs)
    own = roofsim.run(run.scenario)
    best = plan.best
    figures: dict[str, Any] = {
        "name": run.name, "source": run.source, "measured": run.measured, "authors": words_of(run.scenario),
        "predicted": float(own.step_time), "fits": bool(own.memory.fits), "memory": float(own.memory.device_total),
        "considered": plan.considered, "structures": plan.structures, "seconds": plan.seconds,
    }  # fmt: skip
    if best is None:
        return figures | {"winner": None}
    sections = {name: run.scenario.get(name, {}) | best.changes[name] for name in ("parallel", "workload", "hardware")}
    other = roofsim.run({"model": run.scenario["model"], **sections})
    ratio = float(own.step_time / other.step_time)
    interval = speedup_interval(own, other, ratio)
    return figures | {
        "winner": one_layout(best),
        "winner_step": float(other.step_time),
        "winner_memory": float(other.memory.device_total),
        "gain": ratio - 1.0,
        "interval": interval,
        "exceeds": None if interval is None else interval[0] > 1.0,
        "robustness": plan.robustness,
    }


def words_of(scenario: dict[str, Any]) -> str:
    """Return the layout of a scenario in words."""
    changes = {name: scenario.get(name, {}) for name in ("parallel", "workload", "hardware")}
    changes["workload"] = {key: value for key, value in changes["workload"].items() if key != "engine"}
    gpus = int(changes["hardware"]["gpus"])
    return one_layout(Planned(id=0, changes=changes, gpu="", gpus=gpus, step_time=0.0, memory=0.0))


def grouped(rows: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str, dict[str, list[dict[str, Any]]]]]:
    """Yield the tables of several layouts of one model on as many GPUs: source, what was run, and the rows of each layout."""
    groups: dict[Any, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    names = {}
    for row in rows.values():
        scenario = row["scenario"]
        work = dict(scenario["workload"])
        layout = {key: work.pop(key, None) for key in ("micro_batch_size", "recompute")} | scenario.get("parallel", {})
        work.pop("global_batch_size", None)  # a step is compared by its seconds per sample
        model = scenario["model"]
        model, name = (
            (model, model) if isinstance(model, str) else ({**model, "name": None}, model.get("name", "model"))
        )
        key = json.dumps([row["source"], model, scenario["hardware"], work], sort_keys=True)
        groups[key][json.dumps(layout, sort_keys=True)].append(row)
        names[key] = row["source"], f"{name}, {scenario['hardware']['gpus']} x {scenario['hardware']['gpu']}"
    for key, layouts in groups.items():
        if len(layouts) >= LEAST:
            yield *names[key], layouts


def order(layouts: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return how well the predicted order of some layouts is the measured one: Kendall's tau, the place of the truly fastest."""
    measured, predicted = [], []
    for same in layouts.values():
        samples = [row["scenario"]["workload"]["global_batch_size"] for row in same]
        logs = [math.log(row["measured"] / each) for row, each in zip(same, samples, strict=True)]
        steps = [
            math.log(roofsim.run(row["scenario"]).step_time / each) for row, each in zip(same, samples, strict=True)
        ]
        measured.append(sum(logs) / len(logs))
        predicted.append(sum(steps) / len(steps))
    fastest, chosen = measured.index(min(measured)), predicted.index(min(predicted))
    return {
        "layouts": len(measured),
        "spread": math.exp(max(measured) - min(measured)),
        "tau": float(kendalltau(measured, predicted).statistic),
        "place": 1 + sum(each < predicted[fastest] for each in predicted),
        "lost": math.exp(measured[chosen] - measured[fastest]) - 1.0,
    }


def print_runs(figures: list[dict[str, Any]]) -> None:
    """Print what the search proposes for each run."""
    rows = []
    for one in figures:
        measured = "" if one["measured"] is None else words.seconds(one["measured"])
        rows.append([one["name"], "authors", one["authors"], words.seconds(one["predicted"]), measured, "", ""])
        if one["winner"] is not None:
            low, high = one["interval"] or (math.nan, math.nan)
            said = {True: "yes", False: "no", None: "unknown"}[one["exceeds"]]
            gain = f"{100 * one['gain']:+.1f} % ({100 * (low - 1):+.1f} to {100 * (high - 1):+.1f})"
            rows.append(["", "plan", one["winner"], words.seconds(one["winner_step"]), "", gain, said])
    print(table(["run", "by", "layout", "predicted step", "measured", "gain of the plan (80 %)", "exceeds"], rows))
    print()
    for one in figures:
        print(f"{one['name']}: {one['considered']:,} layouts in {one['seconds']:.0f} s. {one['source']}")


def print_orders(figures: list[dict[str, Any]]) -> None:
    """Print how well predicted orders are the measured ones."""
    rows = [
        [
            one["source"], one["what"], str(one["layouts"]), f"{one['spread']:.2f}x", f"{one['tau']:.2f}",
            f"{one['place']} of {one['layouts']}", f"{100 * one['lost']:.1f} %",
        ]
        for one in figures
    ]  # fmt: skip
    print(
        table(
            [
                "source",
                "what",
                "layouts",
                "slowest/fastest",
                "tau",
                "place of the fastest",
                "lost by the plan's choice",
            ],
            rows,
        )
    )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="runs whose name holds this; 'orders': the second table alone")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--record", action="store_true")
    asked = parser.parse_args()
    rows = measurements()
    runs = [compare(run, asked.jobs) for run in published(rows) if asked.only in run.name]
    orders = [
        {"source": source, "what": what, **order(layouts)}
        for source, what, layouts in grouped(rows)
        if asked.only in ("", "orders")
    ]
    if runs:
        print_runs(runs)
    if orders:
        print_orders(orders)
    if asked.record:
        print(record("plan-published", {"runs": runs, "orders": orders}))


if __name__ == "__main__":
    main()
