"""Describe the steps of a list of layers: one block each, what it starts from, what its result is called, what repeats."""

from __future__ import annotations

from typing import Any, Final, Literal, Self

from roofsim.schema.base import ConfigDict, Field, model_validator
from roofsim.spec.model.layers import (
    alternating,
    blocks,
    crossing,
    graphs,
    linear_mixers,
    mixers,
    regions,
    scans,
    shapes,
    streams,
    time_mixes,
    token_mixers,
)
from roofsim.spec.model.layers import windows as parted
from roofsim.spec.model.layers.amounts import Amount
from roofsim.spec.model.layers.forms import LayerBlock
from roofsim.spec.strict import Strict

#: Blocks that need no field, and activations, as words.
Word = Literal[
    "layer_norm",
    "rms_norm",
    "batch_norm",
    "group_norm",
    "max_pool",
    "average_pool",
    "global_average",
    "upsample",
    "shuffle",
    "transpose",
    "flatten",
    "mean",
    "last",
    "loss",
    "mamba",
    "short_conv",
    "rwkv_time_mix",
    "rwkv_channel_mix",
    "over_tokens",
    "affine",
    "aggregate",
    "bias",
    "sines",
    "glu",
    "relu",
    "relu6",
    "gelu",
    "gelu_new",
    "gelu_tanh",
    "quick_gelu",
    "silu",
    "sigmoid",
    "tanh",
    "relu_squared",
    "hardswish",
    "hardsigmoid",
    "leaky_relu",
    "elu",
    "mish",
    "softplus",
    "exp",
    "softmax",
    "scale",
    "normalise",
]
#: Keys of a step that are no block.
_BESIDE: Final = ("name", "source", "kept", "shortcut", "merge", "inplace", "when", "carries", "weights", "frozen")


class Step(Strict):
    """One layer of a list: exactly one block, or a list of layers in one of several ways."""

    model_config = ConfigDict(defer_build=True)

    name: str | None = Field(default=None, description="What reports call it.")
    source: str | None = Field(
        default=None, alias="from", description="A kept result that it starts from, instead of the last one."
    )
    kept: str | None = Field(default=None, alias="as", description="A name for its result, for later steps.")
    when: Literal["prompt", "training", "inference"] | None = Field(
        default=None,
        description="prompt: it runs over prompts (and in training), and not for each token that is generated; training, "
        "inference: layers aside that run in one of both only.",
    )
    weights: str | None = Field(default=None, description="Steps with the same name here share their weights.")
    frozen: bool = Field(default=False, description="Its weights are not trained.")
    # Several layers.
    repeat: Amount | None = Field(
        default=None, description="How often the layers of `layers` run, one after the other."
    )
    layers: list[Step | Word] | None = Field(default=None, description="Layers that repeat, or that share a name.")
    carries: list[str] | None = Field(
        default=None,
        description="Kept results that iterations of a repeat hand on beside the last one: each keeps a new one by that name (as).",
    )
    aside: list[Step | Word] | None = Field(
        default=None, description="Layers whose result is kept (as); the next step takes what this one took."
    )
    residual: list[Step | Word] | None = Field(
        default=None, description="Layers whose result is added to what they took."
    )
    shortcut: list[Step | Word] | None = Field(default=None, description="Layers on the other way of a residual.")
    branches: list[list[Step | Word]] | None = Field(
        default=None, description="Lists of layers that take the same; an empty one hands it on."
    )
    merge: Literal["add", "multiply", "concat", "append"] = Field(
        default="concat", description="How branches come together; append: the tokens of one behind those of the other."
    )
    inplace: bool | None = Field(default=None, description="Whether a residual sum overwrites; left out: of maps.")
    # Kept results.
    add: str | None = Field(default=None, description="A kept result that is added.")
    multiply: str | None = Field(default=None, description="A kept result that is multiplied by.")
    concat: str | list[str] | None = Field(
        default=None, description="Kept results that are put beside, channel by channel."
    )
    append: str | list[str] | None = Field(default=None, description="Kept tokens that are put behind, one by one.")
    # Blocks.
    linear: blocks.LinearBlock | Amount | None = None
    conv: blocks.ConvBlock | Amount | None = None
    causal_conv: blocks.CausalConvBlock | Amount | None = None
    layer_norm: blocks.NormBlock | None = None
    rms_norm: blocks.NormBlock | None = None
    batch_norm: blocks.BatchNormBlock | None = None
    group_norm: blocks.GroupNormBlock | Amount | None = None
    activation: blocks.PointwiseBlock | blocks.Activation | None = None
    glu: blocks.GluBlock | None = None
    cast: blocks.CastBlock | Literal["fp32", "compute"] | None = None
    dropout: blocks.DropoutBlock | float | None = None
    max_pool: blocks.PoolBlock | Amount | None = None
    average_pool: blocks.PoolBlock | Amount | None = None
    adaptive_average: blocks.AdaptiveAverageBlock | Amount | None = None
    global_average: blocks.OfMapsBlock | None = None
    upsample: blocks.UpsampleBlock | Amount | None = None
    squeeze_excite: blocks.SqueezeExciteBlock | Amount | None = None
    patches: shapes.PatchesBlock | None = None
    transpose: shapes.TransposeBlock | tuple[Amount, ...] | None = None
    shuffle: shapes.ShuffleBlock | Amount | None = None
    slice: shapes.SliceBlock | Amount | None = None
    flatten: shapes.FlattenBlock | None = None
    fold: shapes.FoldBlock | Amount | None = None
    unfold: shapes.UnfoldBlock | Amount | None = None
    by_row: shapes.ByRowBlock | Amount | None = None
    outer_sum: shapes.OuterSumBlock | str | None = None
    mean: blocks.PositionlessBlock | None = None
    last: blocks.LastBlock | None = None
    embedding: blocks.EmbeddingBlock | None = None
    attention: mixers.AttentionBlock | Amount | None = None
    cross_attention: crossing.CrossAttentionBlock | None = None
    mlp: mixers.MlpBlock | Amount | None = None
    experts: mixers.ExpertsBlock | None = None
    mamba: scans.MambaBlock | None = None
    mamba2: scans.Mamba2Block | Amount | None = None
    delta_net: linear_mixers.DeltaNetBlock | None = None
    kimi_delta: linear_mixers.KimiDeltaBlock | Amount | None = None
    lightning_attention: linear_mixers.LightningAttentionBlock | Amount | None = None
    short_conv: scans.ShortConvBlock | Amount | None = None
    rwkv_time_mix: time_mixes.TimeMixBlock | None = None
    rwkv_channel_mix: time_mixes.ChannelMixBlock | Amount | None = None
    over_tokens: token_mixers.OverTokensBlock | Amount | None = None
    affine: token_mixers.AffineBlock | None = None
    place: crossing.PlaceBlock | str | None = None
    learned: streams.LearnedBlock | None = None
    sines: streams.SinesBlock | None = None
    bias: streams.BiasBlock | Amount | None = None
    scale_shift: streams.ScaleShiftBlock | None = None
    gate: streams.GateBlock | None = None
    joint_attention: streams.JointAttentionBlock | Amount | None = None
    open_streams: alternating.OpenStreamsBlock | Amount | None = None
    predict_streams: alternating.PredictStreamsBlock | Amount | None = None
    correct_streams: alternating.CorrectStreamsBlock | None = None
    add_to_streams: alternating.AddToStreamsBlock | str | None = None
    close_streams: alternating.CloseStreamsBlock | Amount | None = None
    roi_align: regions.RegionsBlock | None = None
    suppress: regions.SuppressBlock | Amount | None = None
    attend: regions.AttendBlock | None = None
    windows: parted.WindowsBlock | Amount | None = None
    join_windows: parted.JoinWindowsBlock | str | None = None
    masks: parted.MasksBlock | str | None = None
    drop_path: parted.DropPathBlock | float | None = None
    rnn: scans.RecurrentBlock | Amount | None = None
    gru: scans.RecurrentBlock | Amount | None = None
    lstm: scans.RecurrentBlock | Amount | None = None
    aggregate: graphs.AggregateBlock | None = None
    graph_attention: graphs.GraphAttentionBlock | Amount | None = None
    logits: blocks.LogitsBlock | Amount | None = None
    classifier: blocks.ClassifierBlock | Amount | None = None
    contrast: regions.ContrastBlock | str | None = None
    loss: blocks.LossBlock | blocks.LossFunction | None = None

    @model_validator(mode="after")
    def _check_one_block(self) -> Self:
        given = [key for key in self.given if key not in ("layers", *_BESIDE)]
        if "layers" in self.given and not given:
            given = ["layers"]
        elif "layers" in self.given and given != ["repeat"]:
            raise ValueError(f"layers go with repeat, not with {given[0]}")
        if len(given) != 1:
            what = f"{len(given)}: {', '.join(given)}" if given else "none"
            raise ValueError(f"a step has exactly one block; this one has {what}")
        if given == ["repeat"] and self.layers is None:
            raise ValueError("repeat needs layers, what is repeated")
        owners = (("shortcut", "residual"), ("merge", "branches"), ("inplace", "residual"), ("carries", "repeat"))
        for key, owner in owners:
            if key in self.given and owner not in given:
                raise ValueError(f"{key} goes with {owner}")
        if self.when in ("training", "inference") and given != ["aside"]:
            raise ValueError(f"when: {self.when} is for layers aside")
        if given == ["aside"] and self.kept is None:
            raise ValueError("aside needs a name for its result (as)")
        return self

    @property
    def given(self) -> list[str]:
        """The keys that the step has, in the order of its schema."""
        return [key for key, value in self if key in self.model_fields_set and value is not None]

    @property
    def inner(self) -> tuple[list[Any] | None, ...]:
        """The lists of layers that stand in it."""
        return (self.layers, self.aside, self.residual, self.shortcut, *(self.branches or ()))

    @property
    def kind(self) -> str:
        """The key of its block."""
        return next(
            key for key in self.given if key not in _BESIDE and not (key == "layers" and self.repeat is not None)
        )

    @property
    def block(self) -> Any:
        """Its block, with a number or a word read as the field that it stands for; None of lists and kept results."""
        return as_block(self.kind, getattr(self, self.kind))


#: Keys of steps that hold several layers, or that take kept results.
COMPOSED: Final = ("repeat", "layers", "aside", "residual", "branches")
TAKING: Final = ("add", "multiply", "concat", "append")
BLOCKS: Final[dict[str, type[LayerBlock]]] = {
    "linear": blocks.LinearBlock,
    "conv": blocks.ConvBlock,
    "causal_conv": blocks.CausalConvBlock,
    "layer_norm": blocks.NormBlock,
    "rms_norm": blocks.NormBlock,
    "batch_norm": blocks.BatchNormBlock,
    "group_norm": blocks.GroupNormBlock,
    "activation": blocks.PointwiseBlock,
    "glu": blocks.GluBlock,
    "cast": blocks.CastBlock,
    "dropout": blocks.DropoutBlock,
    "max_pool": blocks.PoolBlock,
    "average_pool": blocks.PoolBlock,
    "adaptive_average": blocks.AdaptiveAverageBlock,
    "global_average": blocks.OfMapsBlock,
    "upsample": blocks.UpsampleBlock,
    "squeeze_excite": blocks.SqueezeExciteBlock,
    "patches": shapes.PatchesBlock,
    "transpose": shapes.TransposeBlock,
    "shuffle": shapes.ShuffleBlock,
    "slice": shapes.SliceBlock,
    "flatten": shapes.FlattenBlock,
    "fold": shapes.FoldBlock,
    "unfold": shapes.UnfoldBlock,
    "by_row": shapes.ByRowBlock,
    "outer_sum": shapes.OuterSumBlock,
    "mean": blocks.PositionlessBlock,
    "last": blocks.LastBlock,
    "embedding": blocks.EmbeddingBlock,
    "attention": mixers.AttentionBlock,
    "cross_attention": crossing.CrossAttentionBlock,
    "mlp": mixers.MlpBlock,
    "experts": mixers.ExpertsBlock,
    "mamba": scans.MambaBlock,
    "mamba2": scans.Mamba2Block,
    "delta_net": linear_mixers.DeltaNetBlock,
    "kimi_delta": linear_mixers.KimiDeltaBlock,
    "lightning_attention": linear_mixers.LightningAttentionBlock,
    "short_conv": scans.ShortConvBlock,
    "rwkv_time_mix": time_mixes.TimeMixBlock,
    "rwkv_channel_mix": time_mixes.ChannelMixBlock,
    "over_tokens": token_mixers.OverTokensBlock,
    "affine": token_mixers.AffineBlock,
    "place": crossing.PlaceBlock,
    "learned": streams.LearnedBlock,
    "sines": streams.SinesBlock,
    "bias": streams.BiasBlock,
    "scale_shift": streams.ScaleShiftBlock,
    "gate": streams.GateBlock,
    "joint_attention": streams.JointAttentionBlock,
    "open_streams": alternating.OpenStreamsBlock,
    "predict_streams": alternating.PredictStreamsBlock,
    "correct_streams": alternating.CorrectStreamsBlock,
    "add_to_streams": alternating.AddToStreamsBlock,
    "close_streams": alternating.CloseStreamsBlock,
    "roi_align": regions.RegionsBlock,
    "suppress": regions.SuppressBlock,
    "attend": regions.AttendBlock,
    "windows": parted.WindowsBlock,
    "join_windows": parted.JoinWindowsBlock,
    "masks": parted.MasksBlock,
    "drop_path": parted.DropPathBlock,
    "rnn": scans.RecurrentBlock,
    "gru": scans.RecurrentBlock,
    "lstm": scans.RecurrentBlock,
    "aggregate": graphs.AggregateBlock,
    "graph_attention": graphs.GraphAttentionBlock,
    "logits": blocks.LogitsBlock,
    "classifier": blocks.ClassifierBlock,
    "contrast": regions.ContrastBlock,
    "loss": blocks.LossBlock,
}


def as_block(kind: str, given: Any) -> Any:
    """Return what a key of a step holds as a block.

    >>> as_block("linear", 512).width
    512
    """
    schema = BLOCKS.get(kind)
    if schema is None or isinstance(given, schema):
        return given if schema is not None else None
    return schema.model_construct(**{schema.main: given})


def as_step(item: Any) -> Step:
    """Return a step, also of a word.

    >>> as_step("relu").kind, as_step("batch_norm").kind
    ('activation', 'batch_norm')
    """
    if isinstance(item, Step):
        return item
    given: dict[str, Any] = {item: {}} if item in BLOCKS else {"activation": item}
    return Step(**given)
