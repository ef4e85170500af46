"""Turn rows of measured kernels into the shapes of the kernel models, and list the classes that are fitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.calibrate.kernels.classes import (
    BANDWIDTH,
    COMPUTE,
    CONVERTED,
    FLOOR,
    MICROSECOND,
    KernelClass,
    arithmetic,
    family_of,
    generation,
    held_energy,
    is_format,
    itemsize,
    on_matrix_units,
    silicon,
    watts,
)
from roofsim.calibrate.kernels.least_squares import Columns, FittedConstant
from roofsim.cost.kernels.models.attention import (
    AttentionShape,
    DecodeConstants,
    PrefillConstants,
    decode_time,
    prefill_time,
)
from roofsim.cost.kernels.models.convolution import SQUARE, ConvolutionConstants, ConvolutionShape, convolution_time
from roofsim.cost.kernels.models.experts import ExpertConstants, ExpertShape, active_experts, expert_time
from roofsim.cost.kernels.models.gemm import GemmConstants, GemmShape, Tiling, gemm_time
from roofsim.cost.kernels.models.streaming import StreamConstants, StreamShape, stream_time
from roofsim.cost.kernels.sustained import sustained, window
from roofsim.numeric import Array
from roofsim.spec.constants.kernels import shipped

if TYPE_CHECKING:
    from roofsim.calibrate.kernels.table import Group, KernelTable

Predict = Callable[[Columns], Array]

#: A multi-head latent cache (keys of 576, of which 512 serve as values) shows as one key head at least this wide.
LATENT_WIDTH: Final = 576.0
LATENT_POSITION: Final = 64.0
UNGATED: Final = "moe_torch_flow_nongated"
#: Engine -> shapes of convolutions that it measured in one process, while the host's time of a call grew (see
#: measurements/README.md). A row that does not say how many came before is taken at the middle.
SWEEPS: Final = {"neusight": 5000.0}
#: Engines whose element-wise kernels (vLLM's gated activations) take a block for each token.
BY_TOKEN: Final = ("vidur",)
#: Bytes from which a row takes so long that what a block needs to begin it cannot be seen.
LONG_ROW: Final = 4096.0

TILING: Final = (
    FittedConstant("thinness", 0.2, 0.7, 0.005, 3.0),
    FittedConstant("ramp", 64.0, 1.0, 1.0, 2000.0),
    FittedConstant("wave", 0.5, 0.7, 0.01, 1.0),
    FittedConstant("reduction", 64.0, 1.0, 1.0, 4000.0),
)
TILING_NAMES: Final = tuple(parameter.name for parameter in TILING)
CACHE: Final = (
    FittedConstant("cache_speedup", 2.5, 0.4, 1.0, 10.0),
    FittedConstant("cache_reach", 0.7, 0.5, 0.05, 2.0),
)
#: How measured products were held to their power: joules of a FLOP against those that the card's architecture states for long
#: products, by width (some libraries spend more beside the arithmetic: sums and scales by block), and the seconds over which
#: controllers held the mean. A card's energy is no engine's: the belief in it is firm.
HEAT: Final = "heat"
HELD: Final = (
    FittedConstant(HEAT, 1.0, 0.1, 0.2, 5.0),
    FittedConstant("window", 10000.0 * MICROSECOND, 1.0, 10.0 * MICROSECOND, 100000.0 * MICROSECOND),
)
HELD_NAMES: Final = tuple(parameter.name for parameter in HELD)


def sharpness(expected: float) -> FittedConstant:
    """Return the exponent of a corner."""
    return FittedConstant("sharpness", expected, 0.5, 1.0, 12.0)


def _split_tiling(constants: Columns) -> tuple[Columns, Tiling]:
    rest = {name: value for name, value in constants.items() if name not in TILING_NAMES}
    return rest, Tiling(**{name: constants[name] for name in TILING_NAMES})


def gemm_shape(table: KernelTable) -> GemmShape:
    """Return the products of a table."""
    size = table.sizes
    return GemmShape(
        m=size["m"],
        n=size["n"],
        k=size["k"],
        batch=size["batch"],
        itemsize_a=itemsize(table, 0),
        itemsize_b=itemsize(table, 1),
        itemsize_c=itemsize(table, 2),
    )


def _gemm(table: KernelTable) -> Predict:
    shape, card, converted = gemm_shape(table), silicon(table), is_format(table, CONVERTED)
    limit = product_flops(shape) * table.per_row(held_energy) / table.per_row(watts)

    def predict(constants: Columns) -> Array:
        rest, tiling = _split_tiling(constants)
        rest["quantise"] = np.where(converted, rest["quantise"], np.inf)
        heat, mean = (rest.pop(name) for name in HELD_NAMES)
        time = gemm_time(shape, card, GemmConstants(**rest, tiling=tiling))
        held = sustained(time, heat * limit, 0.0, window(time, mean), card.physics["power_corner"])
        return np.asarray(time + held.held - held.alone)

    return predict


def product_flops(shape: GemmShape) -> Array:
    """Return the FLOPs of products."""
    return 2.0 * shape.m * shape.n * shape.k * shape.batch


def _gemm_work(table: KernelTable) -> Array:
    shape, card = gemm_shape(table), silicon(table)
    return np.maximum(product_flops(shape) / card.peak, shape.traffic() / card.bandwidth)


def attention_shape(table: KernelTable) -> AttentionShape:
    """Return the attention calls of a table."""
    size, window = table.sizes, table.extra("window", 0.0)
    narrow = is_format(table, ("fp8",)) | (table.per_row(lambda g: float(g.dtype.endswith("_kvfp8"))) > 0.0)
    narrow |= np.array([row.get("kv_dtype") == "fp8" for row in table.other], dtype=bool)
    latent = (size["head_dim"] >= LATENT_WIDTH) & (size["kv_heads"] == 1.0)
    return AttentionShape(
        batch=size["batch"],
        heads=size["heads"],
        key_heads=size["kv_heads"],
        query=size["q_len"],
        context=size["kv_len"],
        head_dim=size["head_dim"],
        value_dim=np.where(latent, size["head_dim"] - LATENT_POSITION, size["head_dim"]),
        window=np.where(window > 0.0, window, np.inf),
        causal=table.extra("causal", 1.0),
        latent=latent.astype(np.float64),
        itemsize=np.full(len(table), 2.0),
        cache_itemsize=np.where(narrow, 1.0, 2.0),
    )


def _prefill(table: KernelTable) -> Predict:
    shape, card = attention_shape(table), silicon(table)
    return lambda constants: prefill_time(shape, card, PrefillConstants(**constants))


def _decode(table: KernelTable) -> Predict:
    shape, card = attention_shape(table), silicon(table)
    return lambda constants: decode_time(shape, card, DecodeConstants(**constants))


def _attention_work(table: KernelTable) -> Array:
    shape, card = attention_shape(table), silicon(table)
    scores = shape.batch * shape.heads * shape.query * shape.mean_keys()
    flops = 2.0 * scores * (shape.head_dim + shape.value_dim)
    return np.maximum(flops / card.peak, (shape.cached_bytes() + shape.query_bytes()) / card.bandwidth)


def convolution_shape(table: KernelTable) -> ConvolutionShape:
    """Return the convolutions of a table: m = batch x pixels, n = output channels, k = input channels x taps."""
    size, width = table.sizes, table.extra("hw", 1.0)
    kernel, stride, channels = table.extra("ks", 1.0), table.extra("stride", 1.0), table.extra("cin", 1.0)
    out_width = np.maximum(np.floor((width + 2.0 * table.extra("pad", 0.0) - kernel) / stride) + 1.0, 1.0)
    out_height = np.maximum(np.round(size["m"] / size["batch"] / out_width), 1.0)
    height = np.array([float(row.get("h", row.get("hw", 1.0))) for row in table.other])
    planned = table.extra("planned", -1.0)
    middle = table.per_row(lambda group: SWEEPS.get(group.engine, 0.0) / 2.0)
    taps, rows = size["k"] / channels, size["k"] / channels / kernel
    # Rows that the stride skips are not read.
    before, after = channels * np.minimum(height, out_height * rows) * width, size["n"] * out_height * out_width
    return ConvolutionShape(
        batch=size["batch"],
        in_channels=channels,
        out_channels=size["n"],
        out_height=out_height,
        out_width=out_width,
        taps=taps,
        square=((rows == SQUARE) & (kernel == SQUARE) & (stride == 1.0)).astype(np.float64),
        strided=(stride > 1.0).astype(np.float64),
        groups=np.ones(len(table)),
        image_bytes=size["batch"] * (before + after) * itemsize(table, 0),
        weight_bytes=channels * size["n"] * taps * itemsize(table, 0),
        itemsize=itemsize(table, 0),
        matrix=table.per_row(lambda group: float(on_matrix_units(group))),
        planned=np.where(planned >= 0.0, planned, middle),
    )


def _convolution(table: KernelTable) -> Predict:
    shape, card = convolution_shape(table), silicon(table)
    return lambda constants: convolution_time(shape, card, ConvolutionConstants(**constants))


def _convolution_work(table: KernelTable) -> Array:
    shape, card = convolution_shape(table), silicon(table)
    return np.maximum(shape.flops() / card.peak, shape.traffic() / card.bandwidth)


def stream_shape(table: KernelTable) -> StreamShape:
    """Return the memory-bound calls of a table; element-wise kernels go by rows only where their engine's do."""
    size = itemsize(table, 0)
    rows, width = table.sizes["m"], table.sizes["n"] * size
    tensor = rows * width
    by_rows = table.per_row(lambda group: float(group.op != "elementwise" or group.engine in BY_TOKEN))
    traffic = tensor * (1.0 + table.extra("n_in", 1.0))
    return StreamShape(rows=rows * by_rows, width=width * by_rows, tensor=tensor, traffic=traffic)


def _untold_by_long_rows(table: KernelTable) -> frozenset[str]:
    """Return what tables of long rows alone cannot tell: a row's start looks like a lower bandwidth there."""
    width = stream_shape(table).width
    return frozenset({"row"}) if np.all(width[width > 0.0] >= LONG_ROW) else frozenset()


def _stream(table: KernelTable) -> Predict:
    shape, card, unit = stream_shape(table), silicon(table), shipped().unit_bandwidth
    return lambda constants: stream_time(shape, card, StreamConstants(unit_bandwidth=unit, **constants))


def _stream_work(table: KernelTable) -> Array:
    return np.asarray(stream_shape(table).traffic / silicon(table).bandwidth)


def expert_shape(table: KernelTable) -> ExpertShape:
    """Return the expert layers of a table.

    Whole layers state the tokens of the batch; rows with a `part` are bare grouped products, whose tokens are those of
    one card, evenly spread.
    """
    size, experts = table.sizes, table.extra("experts", 1.0)
    part = np.array([str(row.get("part", "")) for row in table.other])
    bare, down = part != "", part == "down"
    gated = np.array([row.get("ks") != UNGATED for row in table.other], dtype=bool)
    local = np.where(bare, table.extra("local", 1.0), np.maximum(experts / table.extra("ep", 1.0), 1.0))
    routing = [str(row.get("dist", "balanced")) for row in table.other]
    return ExpertShape(
        tokens=np.where(bare, size["m"] * experts / local, size["m"]),
        hidden=np.where(bare & down, size["n"], size["k"]),
        intermediate=np.where(bare, np.where(down, size["k"], size["n"]), size["n"] / table.extra("tp", 1.0)),
        experts=experts,
        chosen=table.extra("topk", 1.0),
        local=local,
        up=np.where(bare, np.where(down, 0.0, 1.0), np.where(gated, 2.0, 1.0)),
        down=np.where(bare & ~down, 0.0, 1.0),
        skew=np.array([0.0 if name == "balanced" else float(name.rpartition("_")[2]) for name in routing]),
        whole=np.where(bare, 0.0, 1.0),
        itemsize_a=itemsize(table, 0),
        itemsize_b=itemsize(table, 1),
    )


def _experts(table: KernelTable) -> Predict:
    shape, card = expert_shape(table), silicon(table)
    return lambda constants: expert_time(shape, card, ExpertConstants(**constants))


def _expert_work(table: KernelTable) -> Array:
    shape, card = expert_shape(table), silicon(table)
    active = active_experts(shape.tokens, shape.experts, shape.chosen, shape.local)
    return np.maximum(shape.flops() / card.peak, shape.weight_bytes(active) / card.bandwidth)


def _engine_family(group: Group) -> tuple[str, ...]:
    return generation(group), group.op, arithmetic(group), group.engine


CLASSES: Final = (
    KernelClass(
        name="gemm",
        ops=("gemm", "bmm"),
        own=(FLOOR, COMPUTE, BANDWIDTH),
        shared=(
            *CACHE, *TILING, sharpness(3.0), FittedConstant("fill", 1.5, 0.7, 0.1, 10.0),
            FittedConstant("quantise", 0.7, 0.5, 0.05, 3.0), *HELD,
        ),
        bind=_gemm,
        work=_gemm_work,
        family=family_of,
        starts=(
            {}, {"wave": 0.95, "thinness": 0.05}, {"thinness": 1.0, "ramp": 20.0},
            {"fill": 0.4, "reduction": 500.0, "cache_speedup": 1.3},
        ),
    ),
    KernelClass(
        name="prefill",
        ops=("attention_prefill",),
        own=(FLOOR, FittedConstant("compute", 0.5, 0.4, 0.02, 1.6), BANDWIDTH),
        shared=(
            FittedConstant("softmax", 0.05, 1.0, 0.001, 1.0), FittedConstant("ramp", 128.0, 1.0, 1.0, 3000.0),
            FittedConstant("balance", 3.0, 0.5, 1.0, 12.0), sharpness(2.0),
        ),
        bind=_prefill,
        work=_attention_work,
        family=lambda group: (generation(group), group.op),
        starts=({}, {"ramp": 500.0}, {"softmax": 0.1, "balance": 8.0}),
    ),
    KernelClass(
        name="decode",
        ops=("attention_decode", "mla_decode"),
        own=(FLOOR, FittedConstant("bandwidth", 0.85, 0.2, 0.02, 1.1), FittedConstant("compute", 0.5, 0.4, 0.02, 1.6)),
        shared=(
            FittedConstant("block", 0.5 * MICROSECOND, 1.0, 0.01 * MICROSECOND, 10.0 * MICROSECOND),
            FittedConstant("chunk", 512.0, 1.0, 16.0, 100000.0), FittedConstant("fill", 1.0, 0.7, 0.05, 10.0),
            FittedConstant("cache_speedup", 2.0, 0.4, 1.0, 8.0), CACHE[1], sharpness(3.0),
        ),
        bind=_decode,
        work=_attention_work,
        family=lambda group: (generation(group), group.op, group.engine),
        starts=(
            {}, {"chunk": 4000.0}, {"chunk": 100.0, "fill": 0.3}, {"sharpness": 1.5, "block": 2.0 * MICROSECOND},
            {"cache_speedup": 1.2, "fill": 3.0},
        ),
    ),
    KernelClass(
        name="convolution",
        ops=("conv2d",),
        own=(FLOOR, COMPUTE, BANDWIDTH),
        shared=(
            FittedConstant("doubling", 1300.0, 0.4, 50.0, 100000.0), FittedConstant("growth", 1.45, 0.15, 0.5, 3.0),
            FittedConstant("launch", 0.1, 0.4, 0.005, 1.0), FittedConstant("thinness", 0.35, 0.4, 0.005, 3.0),
            FittedConstant("ramp", 14.0, 0.5, 1.0, 2000.0), FittedConstant("wave", 0.55, 0.3, 0.01, 1.0),
            FittedConstant("latency", 0.7, 0.4, 0.02, 3.0), FittedConstant("winograd", 0.82, 0.1, 0.3, 1.3),
            FittedConstant("weights", 0.4, 0.4, 0.02, 1.3), FittedConstant("images", 0.65, 0.25, 0.05, 1.3),
            FittedConstant("first_layer", 0.6, 0.5, 0.05, 1.5), FittedConstant("stride", 0.9, 0.3, 0.2, 1.5),
            FittedConstant("transpose", 0.05, 0.5, 0.001, 2.0), *CACHE, sharpness(4.0),
        ),
        bind=_convolution,
        work=_convolution_work,
        family=_engine_family,
        starts=(
            {}, {"latency": 1.2, "ramp": 30.0}, {"wave": 0.95, "thinness": 0.05},
        ),
        sustained=0.5,
    ),
    KernelClass(
        name="streaming",
        ops=("elementwise", "layernorm", "rmsnorm", "softmax", "embedding"),
        own=(FLOOR, BANDWIDTH),
        shared=(
            FittedConstant("cache_speedup", 2.5, 0.5, 1.0, 12.0), CACHE[1],
            FittedConstant("row", 0.05 * MICROSECOND, 1.5, 0.0001 * MICROSECOND, 30.0 * MICROSECOND),
            FittedConstant("walk", 0.00003 * MICROSECOND, 1.5, 1e-7 * MICROSECOND, 0.01 * MICROSECOND),
            FittedConstant("again", 0.3, 1.0, 0.01, 4.0), FittedConstant("on_chip", 8192.0, 1.0, 256.0, 300000.0),
            sharpness(1.5),
        ),
        bind=_stream,
        work=_stream_work,
        untold=_untold_by_long_rows,
        family=lambda group: (generation(group), group.op, group.engine),
        starts=(
            {}, {"sharpness": 3.0, "row": 0.001 * MICROSECOND}, {"again": 1.5, "on_chip": 4096.0},
            {"cache_speedup": 5.0, "row": 0.3 * MICROSECOND},
        ),
    ),
    KernelClass(
        name="experts",
        ops=("moe_gemm",),
        own=(FLOOR, FittedConstant("compute", 0.5, 0.5, 0.02, 1.6), FittedConstant("bandwidth", 0.7, 0.4, 0.02, 1.3)),
        shared=(
            FittedConstant("tile", 32.0, 0.7, 4.0, 256.0), FittedConstant("width", 128.0, 0.7, 8.0, 1024.0),
            FittedConstant("fill", 1.0, 0.7, 0.1, 10.0),
            FittedConstant("expert", 0.1 * MICROSECOND, 1.5, 0.0001 * MICROSECOND, 10.0 * MICROSECOND),
            FittedConstant("permute", 4.0, 0.7, 0.1, 40.0), FittedConstant("imbalance", 0.7, 0.5, 0.05, 3.0),
            FittedConstant("asleep", 0.3, 0.5, 0.02, 0.9), FittedConstant("cache_speedup", 1.5, 0.4, 1.0, 6.0), CACHE[1],
            sharpness(2.0),
        ),
        bind=_experts,
        work=_expert_work,
        family=_engine_family,
        starts=(
            {}, {"tile": 8.0, "width": 64.0}, {"tile": 100.0, "fill": 4.0}, {"cache_speedup": 3.0, "sharpness": 1.1},
        ),
    ),
)  # fmt: skip
