"""Make traces as PyTorch's profiler writes them on a GPU: what a host really did, with kernels of an imaginary card.

`tests/traces/data/*-host.json.gz` are traces of two small models of transformers (GPT-2 and Llama of three layers, batch 2, 128
tokens, AdamW), recorded with torch.profiler on a CPU and thinned to operators, annotations, sequence numbers and dimensions. A
card's trace differs from a host's in the launches and kernels, which are added here in the profiler's own form.
"""

from __future__ import annotations

import gzip
import json
from bisect import bisect_right
from pathlib import Path

DATA = Path(__file__).parent / "data"
#: Rates of the imaginary card.
FLOPS, BANDWIDTH, FLOOR = 50e12, 0.6e12, 2.0
VIEWS = (
    "empty", "empty_strided", "empty_like", "as_strided", "view", "transpose", "t", "expand", "reshape", "resolve_conj",
    "to", "_to_copy", "detach", "item", "_local_scalar_dense", "slice", "narrow", "select", "unsqueeze", "result_type",
    "resize_", "_reshape_alias", "_unsafe_view", "split", "alias", "zeros", "dropout", "layer_norm", "linear", "matmul",
    "scaled_dot_product_attention", "permute", "contiguous", "lift_fresh", "squeeze", "expand_as", "zero_", "zeros_like",
    "ones_like", "new_zeros", "new_empty", "is_nonzero", "cross_entropy_loss", "log_softmax", "nll_loss_nd", "nll_loss",
    "chunk", "unbind", "slice_backward", "embedding_backward", "view_as", "diff", "all", "arange", "detach_",
)  # fmt: skip
PRODUCTS = {"mm": (0, 1), "addmm": (1, 2), "bmm": (0, 1)}


def host_trace(name):
    return json.loads(gzip.decompress((DATA / f"{name}-host.json.gz").read_bytes()))


def _numel(dims):
    if dims and isinstance(dims[0], list):  # a list of tensors
        return sum(map(_numel, dims))
    total = 1
    for size in dims:
        total *= size
    return total


def _seconds(name, dims):
    """Return the microseconds of a kernel on the imaginary card."""
    if name in PRODUCTS:
        left, right = (dims[place] for place in PRODUCTS[name])
        flops = 2 * _numel(left) * right[-1]
        return FLOOR + flops / FLOPS * 1e6
    sizes = [_numel(one) for one in dims if one]
    moved = 2 * (sum(sizes) + max(sizes, default=1))
    return FLOOR + moved / BANDWIDTH * 1e6


def _kernel_name(name):
    if name in PRODUCTS:
        return "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn"
    if "scaled_dot_product" in name:
        return f"void pytorch_flash::flash_{'bwd_dq_dk_dv_loop' if 'backward' in name else 'fwd'}_kernel<Flash_traits>"
    if "layer_norm" in name:
        return "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>"
    if name in ("sum", "mean"):
        return "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<c10::BFloat16>>"
    return "void at::native::vectorized_elementwise_kernel<4, at::native::Functor>"


def leaves(events):
    """Return the operators that compute something, outermost first: none inside of another."""
    ops = sorted((e for e in events if e["cat"] == "cpu_op"), key=lambda e: (e["ts"], -e["dur"]))
    chosen, busy_until = [], -1.0
    for event in ops:
        short = event["name"].rpartition("::")[2]
        if not event["name"].startswith("aten::") or short in VIEWS or event["ts"] < busy_until:
            continue
        dims = event["args"].get("Input Dims", [])
        if sum(_numel(one) for one in dims if one) < 2:
            continue
        chosen.append(event)
        busy_until = event["ts"] + event["dur"]
    return chosen


def _inside(event, computing):
    """Tell whether an operator is part of one that computes: on a card that is one kernel."""
    place = bisect_right(computing, event["ts"], key=lambda one: one["ts"]) - 1
    around = computing[place] if place >= 0 else event
    return (
        event is not around and event["cat"] == "cpu_op" and event["ts"] + event["dur"] <= around["ts"] + around["dur"]
    )


def on_a_card(name, *, slow=lambda _operator: 1.0, old=False, host=0.02):
    """Return the trace of a card: each operator that computes launches a kernel, on stream 7, in turn.

    `slow` gives a factor on the time of an operator's kernel; `old` writes the words of profilers of before 2021; `host` is how
    long the host takes against what the CPU took, which computed as well.
    """
    trace = host_trace(name)
    events, begin = trace["traceEvents"], min(e["ts"] for e in trace["traceEvents"])
    for event in events:
        event["ts"], event["dur"] = begin + (event["ts"] - begin) * host, event["dur"] * host
    added, free = [], 0.0
    computing = leaves(events)
    events[:] = [event for event in events if not _inside(event, computing)]
    for number, event in enumerate(computing, 1000):
        short = event["name"].rpartition("::")[2]
        launch = event["ts"] + 0.5 * event["dur"]
        start = max(free + 1.0, launch + 4.0)
        seconds = _seconds(short, event["args"].get("Input Dims", [])) * slow(event["name"])
        free = start + seconds
        place = {"pid": event["pid"], "tid": event["tid"]}
        external = event["args"]["External id"]
        added += [
            {
                "ph": "X", "cat": "Runtime" if old else "cuda_runtime", "name": "cudaLaunchKernel", **place, "ts": launch,
                "dur": 0.4 * event["dur"], "args": {"cbid": 211, "correlation": number, "External id": external},
            },
            {
                "ph": "X", "cat": "Kernel" if old else "kernel", "name": _kernel_name(short), "pid": 0,
                "tid": "stream 7" if old else 7, "ts": start, "dur": seconds,
                "args": {
                    "External id": external, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": number,
                    "registers per thread": 128, "shared memory": 49152, "blocks per SM": 0.6, "warps per SM": 2.4,
                    "grid": [64, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 4,
                },
            },
            {"ph": "s", "id": number, **place, "ts": launch, "cat": "ac2g", "name": "ac2g"},
            {"ph": "f", "id": number, "pid": 0, "tid": 7, "ts": start, "cat": "ac2g", "name": "ac2g", "bp": "e"},
        ]  # fmt: skip
    if old:
        for event in events:
            event["cat"] = {"cpu_op": "Operator"}.get(event["cat"], event["cat"])
    card = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85099085824, "numSms": 108}
    return {
        "schemaVersion": 1,
        "deviceProperties": [card],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},
        "traceEvents": events + added,
        "traceName": "trace.json",
        "displayTimeUnit": "ms",
    }
