"""Describe blocks that mix tokens or widen them: attention of each kind, feed-forward layers, experts.

Fields that a decoder has too are called as there.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal

from roofsim.schema.base import Field
from roofsim.spec.model.layers.amounts import Amount
from roofsim.spec.model.layers.blocks import WeightForm
from roofsim.spec.model.layers.forms import Form, LayerBlock, Sizes, WrongBlockError, divides, wants, widened
from roofsim.spec.model.transformer import RouterScores

MlpActivation = Literal["gelu", "gelu_new", "gelu_tanh", "quick_gelu", "silu", "relu", "relu_squared"]
#: Sizes that latent attention needs.
_LATENT: Final = ("kv_lora_rank", "qk_nope_head_size", "qk_rope_head_size", "value_head_size")
#: Fields of a layer that reads the keys and values of another: what they may be.
_ALONE: Final[dict[str, tuple[Any, ...]]] = {
    "key_values_as": (None,),
    "fused_query_key_value": (False,),
    "clipped_query_key_value": (False,),
    "query_key_norm": ("none", "head"),
    "value_norm": (False,),
    "value_scale": (False,),
    "values_as_keys": (False,),
    "attention_gate": (False,),
    "attention_chunks": (False,),
    "positions": (None,),
    "rotary_form": ("rotate_half", "slices", "complex"),
}


def pair_of(name: str) -> tuple[str, str]:
    """Return the names under which keys and values are kept.

    >>> pair_of("global")
    ('global.keys', 'global.values')
    """
    return f"{name}.keys", f"{name}.values"


class AttentionBlock(LayerBlock):
    """Self-attention: queries, keys and values, the kernel that the engine picks, the projection back; with its cache."""

    main: ClassVar[str] = "num_attention_heads"
    splits_tensor: ClassVar[bool] = True
    splits_sequence: ClassVar[bool] = True

    num_attention_heads: Amount
    num_key_value_heads: Amount | None = Field(default=None, description="As many as attention heads, if left out.")
    head_size: Amount | None = Field(default=None, description="Width / heads, if left out.")
    output_size: Amount | None = Field(default=None, description="Width that it hands on, where that is another one.")
    adapter_rank: Amount | None = Field(
        default=None, description="Of products added to queries, keys and values, of its own where the rest is shared."
    )
    causal: bool | None = Field(default=None, description="Left out: in models of token ids.")
    position_embedding: Literal["rotary", "alibi", "none"] = "none"
    rotary_fraction: float = Field(default=1.0, gt=0.0, le=1.0, description="Share of each head that is rotated.")
    rotary_form: Literal["rotate_half", "slices", "complex", "tokens"] = "rotate_half"
    sliding_window: Amount | None = None
    attention_chunks: bool = Field(default=False, description="sliding_window is the size of chunks (Llama 4).")
    biases: bool = Field(default=False, description="On all projections.")
    query_key_value_bias: bool | None = Field(default=None, description="As biases, if left out.")
    attention_output_bias: bool | None = Field(default=None, description="As biases, if left out.")
    fused_query_key_value: bool = False
    clipped_query_key_value: bool = False
    query_key_norm: Literal["none", "head", "head_layer", "heads_layer", "full", "unit"] = "none"
    normalization_weight: WeightForm = Field(
        default="plain", description="How an unfused query_key_norm applies its weight."
    )
    value_norm: bool = Field(default=False, description="An RMS norm without weights on values, of each head.")
    positions: str | None = Field(
        default=None,
        description="A kept result that is added to what queries and keys are made of, and not to values (DETR).",
    )
    values_as_keys: bool = Field(default=False, description="Values are what keys are before their norm and rotation.")
    value_scale: bool = Field(default=False, description="A constant factor on values.")
    key_values_as: str | None = Field(default=None, description="A name for its keys and values, for later layers.")
    key_values: str | None = Field(
        default=None,
        description="Keys and values of an earlier layer, which it reads: it has no projections and no cache of its own.",
    )
    attention_soft_cap: bool = False
    attention_sinks: bool = False
    attention_gate: bool = False
    scores_in_fp32: bool = False
    softmax_in_fp32: bool | None = Field(default=None, description="In unfused attention; if left out, with rotary.")
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0, description="Of the result.")
    attention_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    attention: Literal["mha", "mla"] = "mha"
    q_lora_rank: Amount | None = None
    kv_lora_rank: Amount | None = None
    qk_nope_head_size: Amount | None = None
    qk_rope_head_size: Amount | None = None
    value_head_size: Amount | None = None

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens of the same width, or of that which it names."""
        wants(taken, "tokens", what="attention")
        heads = sizes.of(self.num_attention_heads, "num_attention_heads")
        if self.num_key_value_heads is not None:
            shared = sizes.of(self.num_key_value_heads, "num_key_value_heads")
            divides(heads, shared, "num_attention_heads", "num_key_value_heads")
        if self.head_size is None and self.attention == "mha":
            divides(taken.width, heads, "without head_size, the width", "num_attention_heads")
        for key in ("head_size", "output_size", "adapter_rank", "sliding_window", "q_lora_rank", *_LATENT):
            if getattr(self, key) is not None:
                sizes.of(getattr(self, key), key)
        missing = [key for key in _LATENT if getattr(self, key) is None]
        if self.attention == "mla" and (missing or self.position_embedding == "alibi"):
            raise WrongBlockError(
                f"mla needs {', '.join(_LATENT)}, and position_embedding: rotary or none", "attention"
            )
        self._check_sharing()
        more = self.fused_query_key_value or self.attention_gate or self.attention == "mla" or self.head_size
        whole = (self.position_embedding, self.rotary_fraction) == ("rotary", 1.0)
        if self.rotary_form == "tokens" and (more or not whole):
            raise WrongBlockError("tokens are turned by whole heads of rotary positions, in front of three projections")
        if self.positions is not None and (
            self.fused_query_key_value or self.attention == "mla" or self.values_as_keys
        ):
            raise WrongBlockError(
                "positions are added in front of projections of queries and keys by themselves", "positions"
            )
        return self._handed_on(taken, sizes)

    def _handed_on(self, taken: Form, sizes: Sizes) -> Form:
        joint = self.fused_query_key_value or self.attention == "mla" or self.key_values is not None
        if self.adapter_rank is not None and joint:
            raise WrongBlockError("adapters are of queries, keys and values that are projected apart", "adapter_rank")
        if (
            self.value_head_size is not None
            and self.attention == "mha"
            and (self.fused_query_key_value or self.values_as_keys)
        ):
            raise WrongBlockError("values of another size are projected apart", "value_head_size")
        if self.values_as_keys and (joint or self.adapter_rank is not None):
            raise WrongBlockError("keys that are values too are projected apart, without adapters", "values_as_keys")
        if self.output_size is None:
            return taken
        if self.head_size is None:
            raise WrongBlockError("it needs head_size, which does not follow from the width", "output_size")
        return widened(taken, sizes.of(self.output_size, "output_size"))

    def _check_sharing(self) -> None:
        for key in ("key_values", "key_values_as"):
            if getattr(self, key) is not None and (self.attention != "mha" or self.value_head_size is not None):
                raise WrongBlockError("no other layer reads compressed keys and values, or such of other sizes", key)
        odd = next((key for key, plain in _ALONE.items() if getattr(self, key) not in plain), None)
        if self.key_values is not None and odd is not None:
            raise WrongBlockError(f"a layer that reads the keys and values of another has no {odd}", odd)

    def keeps(self, taken: Form, sizes: Sizes) -> dict[str, Form]:
        """Return its keys and values, where they have a name."""
        if self.key_values_as is None:
            return {}
        return {name: self._pair(taken, sizes) for name in pair_of(self.key_values_as)}

    def reads(self) -> tuple[tuple[str, str], ...]:
        """Return the keys and values of another layer, or positions that are added."""
        if self.key_values is None:
            return () if self.positions is None else (("positions", self.positions),)
        keys, values = pair_of(self.key_values)
        return (("key_values", keys), ("values", values))

    def check_others(self, others: dict[str, Form], taken: Form, sizes: Sizes) -> None:
        """Refuse keys and values of other heads, and positions of another width."""
        if self.positions is not None:
            if others["positions"] != taken:
                raise WrongBlockError(f"cannot add {others['positions']} to {taken}", "positions")
            return
        own = self._pair(taken, sizes)
        if any(other != own for other in others.values()):
            raise WrongBlockError(f"cannot read {others['key_values']} as keys of {own}", "key_values")

    def _pair(self, taken: Form, sizes: Sizes) -> Form:
        heads = sizes.of(self.num_attention_heads, "num_attention_heads")
        count = self.num_key_value_heads
        shared = heads if count is None else sizes.of(count, "num_key_value_heads")
        size = taken.width // heads if self.head_size is None else sizes.of(self.head_size, "head_size")
        return widened(taken, shared * size)

    def generates_here(self) -> bool:
        """Tell whether tokens see those before them alone."""
        return self.causal is not False


class MlpBlock(LayerBlock):
    """A feed-forward layer: up (or gate and up), an activation, down."""

    main: ClassVar[str] = "intermediate_size"
    splits_tensor: ClassVar[bool] = True
    splits_sequence: ClassVar[bool] = True

    intermediate_size: Amount
    gated_mlp: bool = False
    activation: MlpActivation | None = Field(default=None, description="gelu, or silu with gated_mlp, if left out.")
    biases: bool = False
    fused_gate_up: bool = False
    adapter_rank: Amount | None = Field(default=None, description="As attention's, of a product added to gate and up.")
    gate: Literal["plain", "clamped", "cutoff"] = "plain"
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens of the same width."""
        wants(taken, "tokens", what="mlp")
        sizes.of(self.intermediate_size, "intermediate_size")
        if self.adapter_rank is not None:
            sizes.of(self.adapter_rank, "adapter_rank")
            if not (self.gated_mlp and self.fused_gate_up):
                raise WrongBlockError("an adapter needs gated_mlp and fused_gate_up", "adapter_rank")
        return taken


class ExpertsBlock(LayerBlock):
    """A mixture of experts, with shared ones beside those that tokens choose."""

    splits_tensor: ClassVar[bool] = True
    splits_sequence: ClassVar[bool] = True

    num_experts: Amount
    experts_per_token: Amount
    expert_intermediate_size: Amount
    zero_experts: Amount = Field(
        default=0, description="More experts that tokens choose from, which hand them on as they are (LongCat-Flash)."
    )
    num_shared_experts: Amount = 0
    shared_expert_intermediate_size: Amount | None = Field(
        default=None, description="num_shared_experts x expert_intermediate_size, if left out."
    )
    shared_expert_gate: bool = False
    expert_latent_size: Amount | None = Field(
        default=None, description="Width to which tokens are projected before their experts, and back from."
    )
    gated_mlp: bool = True
    activation: MlpActivation | None = Field(default=None, description="gelu, or silu with gated_mlp, if left out.")
    gate: Literal["plain", "clamped"] = "plain"
    router_bias: bool = False
    expert_bias: bool = False
    router_reads: str | None = Field(
        default=None, description="A kept result that the router reads in the place of what experts read (Gemma 4)."
    )
    expert_scale: bool = Field(
        default=False, description="A learned factor of each expert on the weights of the chosen."
    )
    router_scores: RouterScores = "softmax"
    router_scores_in_fp32: bool = True
    router_normalized: bool = True
    router_scaled: bool = False
    router_in_fp32: bool = False
    router_weights_in_fp32: bool = True
    router_correction_bias: bool = False
    router_groups: Amount | None = None
    router_groups_per_token: Amount = 1

    def reads(self) -> tuple[tuple[str, str], ...]:
        """Return what its router reads, where that is something else."""
        return () if self.router_reads is None else (("router_reads", self.router_reads),)

    def check_others(self, others: dict[str, Form], taken: Form, sizes: Sizes) -> None:
        """Refuse what is not as wide as the tokens."""
        del sizes
        if others and others["router_reads"] != taken:
            raise WrongBlockError(f"cannot route {taken} by {others['router_reads']}", "router_reads")

    def working_share(self, sizes: Sizes) -> float:
        """Return the share of the experts that tokens choose from which compute something."""
        experts = sizes.of(self.num_experts, "num_experts")
        return experts / (experts + sizes.of(self.zero_experts, "zero_experts", least=0))

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens of the same width."""
        wants(taken, "tokens", what="experts")
        experts = sizes.of(self.num_experts, "num_experts")
        chosen = sizes.of(self.experts_per_token, "experts_per_token")
        idle = sizes.of(self.zero_experts, "zero_experts", least=0)
        if chosen > experts + idle:
            raise WrongBlockError(f"{chosen} of {experts + idle} experts", "experts_per_token")
        if idle and (self.router_groups is not None or self.router_scores not in ("softmax", "sigmoid")):
            raise WrongBlockError("they go with scores of softmax or sigmoid, without groups", "zero_experts")
        if self.router_scores == "sparse_mixer" and chosen != 2:
            raise WrongBlockError(f"router_scores: sparse_mixer takes 2 experts, not {chosen}", "experts_per_token")
        sizes.of(self.expert_intermediate_size, "expert_intermediate_size")
        sizes.of(self.num_shared_experts, "num_shared_experts", least=0)
        for key in ("shared_expert_intermediate_size", "expert_latent_size"):
            if getattr(self, key) is not None:
                sizes.of(getattr(self, key), key)
        if self.router_groups is not None:
            divides(experts, sizes.of(self.router_groups, "router_groups"), "num_experts", "router_groups")
        return taken
