"""Build each kind of block: a function for each key of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.lower.listed import alternating, kernels, mixing, regions, shapes, streams, token_mixing, windows
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.graph.tensor import Tensor


@dataclass(frozen=True)
class BlockBuilder:
    """What builds a block: (context, block, what it takes, kept results) -> what it hands on."""

    build: Callable[[Any, Any, Tensor, dict[str, Tensor]], Tensor]
    own_scope: bool = False
    """Whether it opens a component for itself."""


BUILDERS: Final[dict[str, BlockBuilder]] = {
    "linear": BlockBuilder(kernels.linear, own_scope=False),
    "conv": BlockBuilder(kernels.conv),
    "causal_conv": BlockBuilder(mixing.causal_conv),
    "layer_norm": BlockBuilder(kernels.layer_norm),
    "rms_norm": BlockBuilder(kernels.rms_norm),
    "batch_norm": BlockBuilder(kernels.batch_norm),
    "group_norm": BlockBuilder(kernels.group_norm),
    "activation": BlockBuilder(kernels.activation, own_scope=True),
    "glu": BlockBuilder(kernels.glu, own_scope=True),
    "cast": BlockBuilder(kernels.cast, own_scope=True),
    "dropout": BlockBuilder(kernels.dropout, own_scope=True),
    "max_pool": BlockBuilder(kernels.max_pool, own_scope=True),
    "average_pool": BlockBuilder(kernels.average_pool, own_scope=True),
    "adaptive_average": BlockBuilder(kernels.adaptive_average, own_scope=True),
    "global_average": BlockBuilder(kernels.mean, own_scope=True),
    "upsample": BlockBuilder(kernels.upsample, own_scope=True),
    "squeeze_excite": BlockBuilder(kernels.squeeze_excite, own_scope=True),
    "patches": BlockBuilder(shapes.patches),
    "transpose": BlockBuilder(shapes.transpose, own_scope=True),
    "shuffle": BlockBuilder(shapes.shuffle, own_scope=True),
    "slice": BlockBuilder(shapes.slice_, own_scope=True),
    "flatten": BlockBuilder(shapes.flatten, own_scope=True),
    "fold": BlockBuilder(shapes.fold, own_scope=True),
    "unfold": BlockBuilder(shapes.unfold, own_scope=True),
    "by_row": BlockBuilder(shapes.by_row, own_scope=True),
    "outer_sum": BlockBuilder(shapes.outer_sum, own_scope=True),
    "mean": BlockBuilder(kernels.mean, own_scope=True),
    "last": BlockBuilder(kernels.last, own_scope=True),
    "embedding": BlockBuilder(mixing.embedding, own_scope=True),
    "attention": BlockBuilder(mixing.attention, own_scope=True),
    "cross_attention": BlockBuilder(mixing.cross_attention, own_scope=True),
    "mlp": BlockBuilder(mixing.mlp, own_scope=True),
    "experts": BlockBuilder(mixing.experts, own_scope=True),
    "mamba": BlockBuilder(mixing.mamba, own_scope=True),
    "mamba2": BlockBuilder(mixing.mamba2, own_scope=True),
    "delta_net": BlockBuilder(mixing.delta_net, own_scope=True),
    "kimi_delta": BlockBuilder(mixing.kimi_delta, own_scope=True),
    "lightning_attention": BlockBuilder(mixing.lightning_attention, own_scope=True),
    "short_conv": BlockBuilder(mixing.short_conv),
    "rwkv_time_mix": BlockBuilder(mixing.time_mix),
    "rwkv_channel_mix": BlockBuilder(mixing.channel_mix),
    "over_tokens": BlockBuilder(token_mixing.over_tokens, own_scope=True),
    "affine": BlockBuilder(token_mixing.affine),
    "place": BlockBuilder(mixing.place, own_scope=True),
    "learned": BlockBuilder(streams.learned),
    "sines": BlockBuilder(streams.sines, own_scope=True),
    "bias": BlockBuilder(streams.bias),
    "scale_shift": BlockBuilder(streams.scale_shift),
    "gate": BlockBuilder(streams.gate),
    "joint_attention": BlockBuilder(streams.joint_attention, own_scope=False),
    "open_streams": BlockBuilder(alternating.open_streams),
    "predict_streams": BlockBuilder(alternating.predict_streams),
    "correct_streams": BlockBuilder(alternating.correct_streams),
    "add_to_streams": BlockBuilder(alternating.add_to_streams, own_scope=True),
    "close_streams": BlockBuilder(alternating.close_streams),
    "roi_align": BlockBuilder(regions.roi_align, own_scope=True),
    "suppress": BlockBuilder(regions.suppress, own_scope=True),
    "attend": BlockBuilder(regions.attend),
    "windows": BlockBuilder(windows.windows, own_scope=True),
    "join_windows": BlockBuilder(windows.join_windows, own_scope=True),
    "masks": BlockBuilder(windows.masks, own_scope=True),
    "drop_path": BlockBuilder(windows.drop_path, own_scope=True),
    "rnn": BlockBuilder(mixing.cells_of("rnn")),
    "gru": BlockBuilder(mixing.cells_of("gru")),
    "lstm": BlockBuilder(mixing.cells_of("lstm")),
    "aggregate": BlockBuilder(mixing.aggregate),
    "graph_attention": BlockBuilder(mixing.graph_attention),
    "logits": BlockBuilder(mixing.logits, own_scope=True),
    "classifier": BlockBuilder(kernels.classifier, own_scope=True),
    "contrast": BlockBuilder(regions.contrast),
    "loss": BlockBuilder(kernels.loss, own_scope=True),
}
