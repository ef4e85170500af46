"""The op vocabulary."""

from roofsim.graph.ops.communication import Collective
from roofsim.graph.ops.composite import ExtraKernels, Fused, OptimizerUpdate, StatedKernel, parts_of
from roofsim.graph.ops.heavy import (
    Attention,
    Convolution,
    GroupedMatmul,
    Matmul,
    Recurrence,
    Scan,
    visible_share,
)
from roofsim.graph.ops.host import HostCompute, HostTransfer, HostUpdate
from roofsim.graph.ops.indexed import CacheAppend, Embedding, Gather, Sort
from roofsim.graph.ops.light import (
    BUFFERS,
    STATE_STEPS,
    Cast,
    Copy,
    Dropout,
    Elementwise,
    Loss,
    Normalization,
    Pool,
    Reduction,
    Resize,
    Softmax,
    View,
)

__all__ = [
    "BUFFERS",
    "STATE_STEPS",
    "Attention",
    "CacheAppend",
    "Cast",
    "Collective",
    "Convolution",
    "Copy",
    "Dropout",
    "Elementwise",
    "Embedding",
    "ExtraKernels",
    "Fused",
    "Gather",
    "GroupedMatmul",
    "HostCompute",
    "HostTransfer",
    "HostUpdate",
    "Loss",
    "Matmul",
    "Normalization",
    "OptimizerUpdate",
    "Pool",
    "Recurrence",
    "Reduction",
    "Resize",
    "Scan",
    "Softmax",
    "Sort",
    "StatedKernel",
    "View",
    "parts_of",
    "visible_share",
]
