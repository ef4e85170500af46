"""Say which class of op a recorded kernel is: by the operator that launched it, else by its name."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from roofsim.graph.base import Kind

#: Operators of PyTorch, without their namespace -> class. The first pattern that fits counts.
_OPERATORS: Final = (
    (
        Kind.ATTENTION,
        r"scaled_dot_product|flash_attention|efficient_attention|cudnn_attention|flash_attn|fmha|flex_attention",
    ),
    (Kind.OPTIMIZER, r"_fused_adam|_fused_sgd|_fused_adagrad"),
    (Kind.CONVOLUTION, r"conv(olution)?(?!ert)|slow_conv|mkldnn_conv"),
    (Kind.MATMUL, r"mm\b|mm_|addmv|linear|matmul|_scaled_mm|_grouped_mm|bmm|addbmm|einsum|mv\b|dot\b"),
    (Kind.SOFTMAX, r"softmax"),
    (Kind.LOSS, r"cross_entropy|nll_loss|mse_loss|l1_loss|kl_div|binary_cross"),
    (Kind.NORMALIZATION, r"(layer|batch|group|instance|rms|local_response)_?norm"),
    (Kind.DROPOUT, r"dropout|bernoulli"),
    (Kind.EMBEDDING, r"embedding"),
    (Kind.GATHER, r"gather|scatter|index|take_along|masked_select|nonzero"),
    (Kind.SORT, r"sort|topk|argmax|unique"),
    (Kind.POOLING, r"pool"),
    (Kind.RESIZE, r"upsample|interpolate|grid_sampl"),
    (Kind.SCAN, r"cumsum|cumprod|scan"),
    (
        Kind.COPY,
        r"copy_|contiguous|clone|cat\b|stack\b|_to_copy|transpose_copy|(?<!masked_)fill_|zero_|zeros|pad\b|roll\b|repeat",
    ),
    (Kind.REDUCTION, r"sum\b|mean\b|amax|amin|max\b|min\b|norm\b|var\b|std\b|logsumexp|any\b|all\b|prod\b"),
)
#: Names of kernels -> class.
_KERNELS: Final = (
    (
        Kind.COLLECTIVE,
        r"^nccl|^rccl|ncclDevKernel|ncclKernel|nvshmem|all_?reduce_(one|two)_?(shot|stage)|cross_device_reduce",
    ),
    (Kind.ATTENTION, r"flash_(fwd|bwd)|flash|fmha|attention|attn_fwd|attn_bwd|mha_|paged_attn"),
    (Kind.OPTIMIZER, r"multi_tensor_apply|adam|FusedOptimizer|lamb_|sgd_momentum"),
    (
        Kind.CONVOLUTION,
        r"conv|wgrad|dgrad|winograd|implicit_gemm|xmma_fprop|cudnn.*(fprop|engine)|im2col|nchwToNhwc|nhwcToNchw",
    ),
    (
        Kind.MATMUL,
        r"gemm|gemv|cutlass|nvjet|cublas|xmma|Cijk_|splitK|matmul|_mm_|dot_kernel|s16816|s884|s1688|h884|wgmma|mul_mat",
    ),
    (Kind.SOFTMAX, r"softmax"),
    (Kind.LOSS, r"cross_entropy|nll_loss|cunn_SpatialClassNLL"),
    (
        Kind.NORMALIZATION,
        r"(layer|batch|group|rms)_?norm|bn_(fw|bw)|GammaBeta|ComputeInternalGradients|RowwiseMoments|cuCompute",
    ),
    (Kind.DROPOUT, r"dropout"),
    (Kind.EMBEDDING, r"embedding"),
    (Kind.SORT, r"sort|topk|RadixSelect"),
    (Kind.GATHER, r"gather|scatter|index"),
    (Kind.POOLING, r"pool"),
    (Kind.RESIZE, r"upsample"),
    (Kind.SCAN, r"scan|cumsum"),
    (Kind.REDUCTION, r"reduce_kernel|reduction|triton_red|triton_per|sum_kernel"),
    (Kind.COPY, r"copy|Cat(Array|Batched)|transpose|fill|memset|memcpy|FillFunctor"),
    (Kind.ELEMENTWISE, r"elementwise|triton_poi|triton|pointwise|activation|gelu|silu|relu|mul|add|functor"),
)
_FOR_OPERATORS: Final = tuple((kind, re.compile(text)) for kind, text in _OPERATORS)
_FOR_KERNELS: Final = tuple((kind, re.compile(text, re.IGNORECASE)) for kind, text in _KERNELS)
#: Classes whose kernels order everything else: few, long, and each with FLOPs of its own.
ANCHORS: Final = frozenset({Kind.MATMUL, Kind.CONVOLUTION, Kind.ATTENTION})
#: Class of a kernel -> classes of ops that frameworks make of several kernels, of which it may be one.
PART_OF: Final[dict[Kind, tuple[Kind, ...]]] = {
    Kind.ELEMENTWISE: (
        Kind.CAST,
        Kind.DROPOUT,
        Kind.NORMALIZATION,
        Kind.SOFTMAX,
        Kind.LOSS,
        Kind.COPY,
        Kind.REDUCTION,
        Kind.EMBEDDING,
        Kind.ATTENTION,
    ),
    Kind.COPY: (Kind.CAST, Kind.ELEMENTWISE, Kind.EMBEDDING, Kind.GATHER, Kind.ATTENTION, Kind.REDUCTION),
    Kind.CAST: (Kind.COPY, Kind.ELEMENTWISE),
    Kind.REDUCTION: (Kind.NORMALIZATION, Kind.SOFTMAX, Kind.LOSS, Kind.ELEMENTWISE, Kind.EMBEDDING),
    Kind.NORMALIZATION: (Kind.REDUCTION, Kind.ELEMENTWISE),
    Kind.SOFTMAX: (Kind.LOSS, Kind.ATTENTION, Kind.ELEMENTWISE),
    Kind.LOSS: (Kind.SOFTMAX, Kind.REDUCTION, Kind.ELEMENTWISE),
    Kind.DROPOUT: (Kind.ELEMENTWISE, Kind.ATTENTION, Kind.SOFTMAX),
    Kind.EMBEDDING: (Kind.GATHER, Kind.REDUCTION, Kind.ELEMENTWISE),
    Kind.GATHER: (Kind.EMBEDDING, Kind.ELEMENTWISE, Kind.COPY, Kind.SORT, Kind.LOSS),
    Kind.SORT: (Kind.GATHER, Kind.EMBEDDING),
    Kind.SCAN: (Kind.SORT, Kind.ELEMENTWISE, Kind.REDUCTION),
    Kind.POOLING: (Kind.REDUCTION, Kind.ELEMENTWISE),
    Kind.RESIZE: (Kind.ELEMENTWISE, Kind.COPY),
}


@lru_cache(maxsize=8192)
def class_of(name: str, operator: str) -> Kind | None:
    """Return the class of a kernel; None where neither its name nor its operator says.

    >>> class_of("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", "aten::mm")
    <Kind.MATMUL: 'matmul'>
    >>> class_of("void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>", "aten::gelu")
    <Kind.ELEMENTWISE: 'elementwise'>
    >>> class_of("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "")
    <Kind.COLLECTIVE: 'collective'>
    >>> class_of("vortex", "") is None
    True
    """
    by_name = _first(_FOR_KERNELS, name)
    if by_name is Kind.COLLECTIVE or not operator:
        return by_name
    by_operator = _first(_FOR_OPERATORS, operator.rpartition("::")[2])
    if by_operator is None:
        # An operator that no pattern names computes on elements, unless its kernel is known for something heavier.
        return by_name if by_name in (*ANCHORS, Kind.OPTIMIZER, Kind.REDUCTION) else Kind.ELEMENTWISE
    if by_operator in ANCHORS and by_name is not None and by_name not in ANCHORS:
        return by_name  # what stands beside a product: a split sum, a bias that is copied first
    return by_operator


def _first(patterns: tuple[tuple[Kind, re.Pattern[str]], ...], text: str) -> Kind | None:
    return next((kind for kind, pattern in patterns if pattern.search(text)), None)


#: Words in the names of collectives' kernels and operators -> the function.
_FUNCTIONS: Final = (
    ("all_reduce", r"all_?reduce|cross_device_reduce"),
    ("reduce_scatter", r"reduce_?scatter"),
    ("all_gather", r"all_?gather"),
    ("all_to_all", r"all_?to_?all"),
    ("send_recv", r"send_?recv|\bsend\b|\brecv\b|ncclKernel_Send|coalesced_p2p"),
    ("broadcast", r"broadcast"),
    ("reduce", r"reduce"),
    ("gather", r"gather"),
    ("scatter", r"scatter"),
)
_FOR_FUNCTIONS: Final = tuple((name, re.compile(text, re.IGNORECASE)) for name, text in _FUNCTIONS)


def function_of(text: str) -> str:
    """Return the collective that a name speaks of; empty where it names none.

    >>> function_of("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL"), function_of("_allgather_base"), function_of("x")
    ('reduce_scatter', 'all_gather', '')
    """
    return next((name for name, pattern in _FOR_FUNCTIONS if pattern.search(text)), "")
