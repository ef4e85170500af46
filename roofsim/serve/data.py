"""Write the answer of `serve` as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from roofsim.serve.answer import Served

SCHEMA: Final = "roofsim/serve/1"


def as_data(served: Served) -> dict[str, Any]:
    """Return plain data, of schema roofsim/serve/1; seconds, bytes, tokens, dollars."""
    plan, steady, ranges = served.plan, served.steady, served.ranges()
    parallel = plan.resolved.parallel
    return {
        "schema": SCHEMA,
        "scenario": {
            "model": plan.resolved.model.name,
            "precision": plan.resolved.precision.name,
            "engine": plan.resolved.engine.name,
            "gpu": plan.resolved.gpu.name,
            "gpus": plan.gpus,
            "system": plan.resolved.system.name,
            "tensor": parallel.tensor,
            "pipeline": parallel.pipeline,
            "expert": parallel.expert,
            "replicas": parallel.data,
            "prompt_length": plan.prompt,
            "cached_prompt_length": plan.cached,
            "output_length": plan.output,
            "max_num_batched_tokens": plan.budget,
            "chunked_prefill": plan.chunked,
            "max_num_seqs": plan.max_num_seqs,
            "serving": plan.serving.model_dump(),
        },
        "load": {"kind": served.kind, "concurrency": plan.concurrency, "request_rate": plan.request_rate},
        "fits": served.room.fits,
        "sustainable": steady is not None,
        "reason": served.reason,
        "latency": None
        if steady is None
        else {
            "time_to_first_token": steady.time_to_first_token,
            "time_to_first_token_range": ranges["time_to_first_token"],
            "time_per_output_token": steady.time_per_output_token,
            "time_per_output_token_range": ranges["time_per_output_token"],
            "end_to_end": steady.end_to_end,
            "kv_transfer": None if served.workers is None else served.workers.transfer,
        },
        "throughput": None if steady is None else served.rates(steady),
        "running": None if steady is None else steady.running,
        "waiting": None if steady is None else steady.waiting,
        "prompt_share": None if steady is None else steady.prompt_share,
        "bounds": served.bounds,
        "decode_compute_bound_at": served.compute_bound_at,
        "decode_products_compute_bound_at": served.products_bound_at,
        "saturation": {
            "requests_per_second": served.highest_rate if served.room.fits else None,
            "output_tokens_per_second_per_gpu": served.highest_rate * plan.output / plan.gpus
            if served.room.fits
            else None,
            "max_requests": served.max_requests,
        },
        "memory": served.room.to_dict(),
        "prefix_cache": plan.hits.to_dict() if plan.stated_cached or plan.hits.capacity else None,
        "cost": served.money(),
        "curve": [point(served, index) for index in range(len(served.curve))],
        "simulated": None if served.simulated is None else served.simulated.to_dict(),
        "assumed": list(plan.assumed),
        "warnings": list(served.notes),
    }


def curve_rows(served: Served) -> list[dict[str, Any]]:
    """Return the curve as rows of a table; where nothing fits, one row without figures that says why."""
    found = [point(served, index) for index in range(len(served.curve))]
    return found or [{"concurrency": 0.0, "reason": served.reason}]


def point(served: Served, index: int) -> dict[str, Any]:
    """Return one point of the curve over loads."""
    concurrency, steady = served.curve[index]
    return {
        "concurrency": concurrency,
        "time_to_first_token": steady.time_to_first_token,
        "time_per_output_token": steady.time_per_output_token,
        "end_to_end": steady.end_to_end,
        **served.rates(steady),
    }
