"""The scenarios whose hosts are recorded in `data`, and traces made of predictions."""

from __future__ import annotations

from typing import Any

from roofsim.api import resolve_document
from roofsim.evaluate import evaluate
from roofsim.spec.scenario.document import load_scenario

SIZES = {"num_layers": 3, "hidden_size": 256, "num_attention_heads": 4, "vocab_size": 4096, "max_sequence_length": 256}
WORKLOAD = {"micro_batch_size": 2, "sequence_length": 128, "precision": "bf16", "engine": "huggingface"}
GPT2: dict[str, Any] = {
    "model": {"family": "decoder", **SIZES, "dropout": 0.0, "tie_embeddings": True},
    "workload": WORKLOAD,
    "hardware": {"gpu": "a100-sxm4-80gb"},
}
LLAMA: dict[str, Any] = {
    "model": {
        "family": "decoder",
        **SIZES,
        "intermediate_size": 704,
        "num_key_value_heads": 2,
        "gated_mlp": True,
        "normalization": "rmsnorm",
        "position_embedding": "rotary",
    },
    "workload": WORKLOAD,
    "hardware": {"gpu": "a100-sxm4-80gb"},
}
SCENARIOS = {"gpt2": GPT2, "llama": LLAMA}
#: Class of an op -> the operator and kernel that run it on a card.
RUN_BY = {
    "matmul": ("aten::mm", "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_nn"),
    "attention": ("aten::_flash_attention_forward", "void pytorch_flash::flash_fwd_kernel<Traits>"),
    "normalization": ("aten::native_layer_norm", "vectorized_layer_norm_kernel"),
    "softmax": ("aten::_log_softmax", "cunn_SoftMaxForward"),
    "loss": ("aten::nll_loss_forward", "nll_loss_forward_reduce_cuda_kernel_2d"),
    "embedding": ("aten::embedding", "indexSelectLargeIndex"),
    "dropout": ("aten::native_dropout", "fused_dropout_kernel_vec"),
    "reduction": ("aten::sum", "reduce_kernel<512, 1>"),
    "copy": ("aten::copy_", "direct_copy_kernel_cuda"),
    "optimizer": ("aten::_fused_adamw_", "multi_tensor_apply_kernel"),
    "collective": ("c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
}


def evaluation_of(scenario, **overrides):
    return evaluate(resolve_document(load_scenario(scenario, overrides)))


def kineto_of(ops, *, steps=3, slow=lambda _op: 1.0, host=2.0):
    """Return a trace in the profiler's form of a step of some predicted ops, on one stream and, for messages, another.

    The host launches a kernel every `host` microseconds and waits for the device at the end of each step.
    """
    events, now, correlation = [], 1000.0, 1
    for step in range(steps):
        begin, launch = now, now
        free = {7: now + 10.0, 20: now + 10.0}
        for op in ops:
            stream = 20 if op.function else 7
            operator, kernel = RUN_BY.get(op.group, ("aten::add", "vectorized_elementwise_kernel<4, Functor>"))
            dims = [[1, 1], [1, int(op.flops / 2)]] if op.kind == "matmul" else [[4, 4]]
            around = {"forward": [], "backward": ["autograd::engine::evaluate_function: XBackward0"]}.get(
                op.phase, ["Optimizer.step#AdamW.step"]
            )
            for place, name in enumerate((*around, operator)):
                category = "user_annotation" if name.startswith("Optimizer") else "cpu_op"
                args = {"External id": correlation, "Input Dims": dims if name == operator else []}
                shared = {"ph": "X", "cat": category, "name": name, "pid": 9, "tid": 9, "args": args}
                events.append(shared | {"ts": launch + 0.1 * place, "dur": host - 0.3 * place})
            shared = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9}
            events.append(shared | {"ts": launch + 0.3, "dur": 0.5, "args": {"correlation": correlation}})
            start, seconds = max(free[stream], launch + 4.0), op.seconds * 1e6 * slow(op)
            args = {
                "device": 0,
                "stream": stream,
                "correlation": correlation,
                "External id": correlation,
                "grid": [64, 1, 1],
            }
            if op.function:
                named = {
                    "all_reduce": "allreduce",
                    "all_gather": "_allgather_base",
                    "reduce_scatter": "_reduce_scatter_base",
                }
                args |= {"Collective name": named[op.function], "In msg nelems": int(op.moved / 2), "dtype": "BFloat16"}
            shared = {"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": stream}
            events.append(shared | {"ts": start, "dur": seconds, "args": args})
            free[stream] = start + seconds
            launch += host
            correlation += 1
        end = max(*free.values(), launch)
        shared = {"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 9, "tid": 9}
        events.append(shared | {"ts": launch, "dur": end + 1.0 - launch, "args": {"correlation": correlation}})
        correlation += 1
        now = end + 5.0
        shared = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 9, "tid": 9, "args": {}}
        events.append(shared | {"ts": begin, "dur": now - begin})
    return {"traceEvents": events, "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "numSms": 108}]}
