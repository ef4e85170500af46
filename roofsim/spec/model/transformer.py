"""Describe transformers: decoders, encoders, encoder-decoders."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from roofsim.records import replace
from roofsim.schema.base import Field, model_validator
from roofsim.spec.model.base import Count, Depth, ModelSpec, Rate, Size
from roofsim.spec.model.delta_net import DeltaNet
from roofsim.spec.model.traits import Traits
from roofsim.spec.strict import Strict
from roofsim.symbols import kind_of
from roofsim.units import humanize

Activation = Literal["gelu", "gelu_new", "gelu_tanh", "quick_gelu", "silu", "relu", "relu_squared", "xielu"]
Normalization = Literal["layernorm", "rmsnorm"]
RouterScores = Literal["softmax", "sigmoid", "softmax_of_top", "wide_softmax_of_top", "sparse_mixer"]


class TransformerModel(ModelSpec):
    """What decoders and encoders share. Defaults are those of the GPT-2 generation."""

    num_layers: Size
    hidden_size: Size
    num_attention_heads: Size
    vocab_size: Size
    num_key_value_heads: Size | None = Field(default=None, description="As many as attention heads, if left out.")
    head_size: Size | None = Field(default=None, description="hidden_size / num_attention_heads, if left out.")
    intermediate_size: Size | None = Field(default=None, description="4 x hidden_size, if left out.")
    max_sequence_length: Size = 2048
    gated_mlp: bool = Field(default=False, description="Gate and up projections; brings SiLU, no biases.")
    activation: Activation | None = Field(default=None, description="gelu, or silu with gated_mlp, if left out.")
    normalization: Normalization = "layernorm"
    position_embedding: Literal["learned", "rotary", "alibi", "relative", "none"] = "learned"
    tie_embeddings: bool = True
    biases: bool | None = Field(default=None, description="True, or False with gated_mlp, if left out.")
    query_key_value_bias: bool | None = Field(default=None, description="As `biases`, if left out.")
    attention_output_bias: bool | None = Field(default=None, description="As `biases`, if left out.")
    mlp_bias: bool | None = Field(default=None, description="As `biases`, if left out.")
    normalization_bias: bool | None = Field(default=None, description="As `biases`, if left out (layernorm only).")
    head_bias: bool = False
    dropout: Rate = 0.0
    embedding_dropout: Rate | None = Field(default=None, description="As `dropout`, if left out.")
    attention_dropout: Rate | None = Field(default=None, description="As `dropout`, if left out.")

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        heads = self.num_attention_heads
        if self._own_head_size() is None and self.hidden_size % heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads {heads}; give head_size, or "
                f"{_nearest_divisor(self.hidden_size, heads)} heads"
            )
        shared = self.num_key_value_heads
        if shared is not None and heads % shared:
            raise ValueError(
                f"num_attention_heads {heads} is not a multiple of num_key_value_heads {shared}; "
                f"the nearest that divides is {_nearest_divisor(heads, shared)}"
            )
        return self

    def _own_head_size(self) -> int | None:
        """Return the head size that the fields give, if any."""
        return self.head_size

    def traits(self) -> Traits:
        """Return the numbers that general code asks for."""
        heads, shared = self.num_attention_heads, self.num_key_value_heads
        return Traits(
            layers=self.num_layers,
            hidden_size=self.hidden_size,
            attention_heads=heads,
            key_value_heads=heads if shared is None else shared,
            tensor_splits=(("num_attention_heads", heads),),
            longest_sequence=self.max_sequence_length,
        )

    def completed(self) -> Self:
        """Return a copy with every derived default written out."""
        biases = not self.gated_mlp if self.biases is None else self.biases
        h, a = self.hidden_size, self.num_attention_heads
        derived: dict[str, Any] = {
            "num_key_value_heads": a,
            "head_size": self._own_head_size() or (h // a if kind_of(h) is int else h / a),
            "intermediate_size": 4 * h,
            "activation": "silu" if self.gated_mlp else "gelu",
            "biases": biases,
            "query_key_value_bias": biases,
            "attention_output_bias": biases,
            "mlp_bias": biases,
            "normalization_bias": biases,
            "embedding_dropout": self.dropout,
            "attention_dropout": self.dropout,
        }
        return self.model_copy(update={key: value for key, value in derived.items() if getattr(self, key) is None})


def _nearest_divisor(number: int, wanted: int) -> int:
    return min((d for d in range(1, min(number, 1_000_000) + 1) if number % d == 0), key=lambda d: (abs(d - wanted), d))


class UnpricedNetwork(Strict):
    """A network beside a language model, such as its vision tower: it takes memory, and its work is not priced."""

    name: str
    parameters: Size


class DecoderModel(TransformerModel):
    """A decoder-only language model, dense or with experts, with multi-head, grouped-query or latent attention."""

    generates: ClassVar[bool] = True
    splits_tensor: ClassVar[bool] = True
    splits_sequence: ClassVar[bool] = True
    packs_samples: ClassVar[bool] = True
    stacked: ClassVar[bool] = True
    structural: ClassVar[frozenset[str]] = frozenset({"full_attention_every"})

    family: Literal["decoder"] = "decoder"
    embedding_size: Size | None = Field(default=None, description="Width of a projected token embedding (OPT-350m).")
    embedding_normalization: bool = Field(default=False, description="A norm right after the embedding (BLOOM).")
    embedding_scale: bool = Field(default=False, description="Multiply embeddings by sqrt(hidden_size) (Gemma).")
    fused_query_key_value: bool = Field(default=False, description="One projection for queries, keys and values.")
    clipped_query_key_value: bool = Field(
        default=False, description="Queries, keys and values are bounded by a constant (DBRX, MPT, OLMoE)."
    )
    key_value_parts: Literal["views", "copies", "expanded"] = Field(
        default="views",
        description="How the library's training code takes keys and values out of a fused projection: as views, as "
        "copies (an index; Falcon-7B), or as copies for all query heads (Falcon-40B).",
    )
    fused_gate_up: bool = Field(default=False, description="One projection for gate and up (Phi-3).")
    gate: Literal["plain", "clamped", "cutoff"] = Field(
        default="plain",
        description="clamped: gpt-oss limits gate and up; cutoff: of each token's gates those stay that lie some deviations above "
        "their mean (Gemma 3n's Gaussian top-k).",
    )
    normalization_first: bool = Field(default=True, description="False: norms after the residual sums (OPT-350m).")
    normalization_weight: Literal["plain", "fp32", "wide", "zero_centered"] = Field(
        default="plain",
        description="How an unfused RMS norm applies its weight: after the cast back (Llama), before it (gpt-oss), before it and "
        "from a copy in fp32 (wide, Gemma 3n), or before it as an offset from one (Gemma). A layer norm is unfused with fp32 only, "
        "where the code writes it out (Cohere).",
    )
    position_offset: Count = Field(default=0, description="Extra rows of the position table (OPT: 2).")
    rotary_fraction: float = Field(default=1.0, gt=0.0, le=1.0, description="Share of each head that is rotated.")
    rotary_form: Literal["rotate_half", "joined", "slices", "complex", "tokens"] = Field(
        default="rotate_half",
        description="How the library's code turns pairs of elements: whole heads and a turned copy (Llama), the same "
        "and put together with what is not turned, even if nothing is left (GPT-NeoX), two halves (DeepSeek-V3, gpt-oss), "
        "complex numbers (DeepSeek-V2), or what enters the projections of queries and keys, head by head (Wav2Vec2-Conformer).",
    )
    scores_in_fp32: bool = Field(default=False, description="Unfused attention multiplies fp32 copies (GPT-J).")
    softmax_in_fp32: bool | None = Field(
        default=None, description="In unfused attention; if left out, True without learned positions."
    )
    query_key_norm: Literal["none", "head", "head_layer", "heads_layer", "full", "unit"] = Field(
        default="none",
        description="RMS norm on queries and keys: of each head (head_layer: a layer norm with weight and bias; heads_layer: one "
        "with weights of its own for every head and without bias, Command R+), of all heads together, or of each head after its "
        "rotation and without weights (unit, Llama 4; of layers that rotate).",
    )
    value_norm: bool = Field(
        default=False, description="An RMS norm without weights on values, of each head (Gemma 3n)."
    )
    values_as_keys: bool = Field(default=False, description="Values are what keys are before their norm (Gemma 4).")
    value_scale: bool = Field(default=False, description="A constant factor on values (MiMo-V2).")
    parallel_block: bool = Field(default=False, description="Attention and MLP read the same input (GPT-J, GPT-NeoX).")
    shared_norm: bool = Field(default=False, description="A parallel block with one norm for both (GPT-J, Falcon-7B).")
    post_norms: bool = Field(default=False, description="Norms after attention and MLP as well (Gemma 2).")
    pre_norms: bool = Field(
        default=True, description="Norms before attention and MLP; false beside post_norms: OLMo 2."
    )
    final_normalization: bool = True
    attention_soft_cap: bool = Field(default=False, description="tanh soft cap on attention scores (Gemma 2).")
    logit_soft_cap: bool = Field(default=False, description="tanh soft cap on logits (Gemma 2).")
    logit_scale: bool = Field(default=False, description="A constant factor on logits (Cohere).")
    logits_in_fp32: bool = Field(default=False, description="The model widens its logits itself (Nemotron-H).")
    residual_scale: bool = Field(
        default=False, description="A constant factor on what sublayers add (Granite, MiniCPM)."
    )
    attention_gate: bool = Field(
        default=False, description="A sigmoid gate on what attention returns, from the query projection (Qwen3-Next)."
    )
    attention_sinks: bool = Field(default=False, description="A learned sink logit per head (gpt-oss).")
    sliding_window: Size | None = None
    attention_chunks: bool = Field(
        default=False, description="sliding_window is the size of chunks, which tokens do not look beyond (Llama 4)."
    )
    full_attention_every: Depth | None = Field(default=None, description="Every n-th layer attends to everything.")
    full_attention_rotates: bool = Field(
        default=True,
        description="Whether layers that attend to everything rotate beside windowed ones (Cohere 2: not).",
    )
    delta_net: DeltaNet | None = Field(
        default=None, description="What layers between those that attend to everything are instead (Qwen3-Next)."
    )
    beside: tuple[UnpricedNetwork, ...] = Field(
        default=(), description="Networks whose weights lie beside the language model's and whose work is not priced."
    )
    num_experts: Count = 0
    experts_per_token: Size = 2
    zero_experts: Count = Field(
        default=0, description="More to choose from, which hand tokens on as they are (LongCat)."
    )
    num_shared_experts: Count = 0
    shared_expert_gate: bool = False
    shared_expert_intermediate_size: Size | None = Field(
        default=None, description="num_shared_experts x expert_intermediate_size, if left out."
    )
    expert_intermediate_size: Size | None = Field(default=None, description="As intermediate_size, if left out.")
    expert_latent_size: Size | None = Field(
        default=None,
        description="Width to which tokens are projected before their experts, and back from (Nemotron 3 Super).",
    )
    num_dense_layers: Count = Field(default=0, description="Leading layers with a dense MLP.")
    router_bias: bool = False
    expert_bias: bool = False
    router_scores: RouterScores = Field(
        default="softmax",
        description="softmax_of_top: over the logits of the chosen experts only (gpt-oss); wide: in fp32 (Granite). sparse_mixer: "
        "two experts one after the other, each by a softmax over the scores near the largest that is left (Phi-3.5-MoE).",
    )
    router_scores_in_fp32: bool = Field(default=True, description="Else the scores keep the compute type (DBRX).")
    expert_input_jitter: Literal["none", "once", "twice"] = Field(
        default="none",
        description="How often the library's training code multiplies what experts read by noise, in place (DBRX: once, even "
        "if all noise is one; Mixtral with router_jitter_noise: once; Phi-3.5-MoE: twice).",
    )
    router_normalized: bool = Field(default=True, description="Weights of the chosen experts are made to sum to one.")
    expert_scale: bool = Field(default=False, description="A learned factor of each expert on these weights (Gemma 4).")
    router_scaled: bool = Field(default=False, description="A constant factor on these weights (DeepSeek).")
    router_in_fp32: bool = Field(default=False, description="The router's product runs on fp32 copies (DeepSeek).")
    router_weights_in_fp32: bool = Field(default=True, description="Else in the compute type, as Qwen's are.")
    router_correction_bias: bool = Field(default=False, description="A balancing bias in the choice (DeepSeek-V3).")
    router_groups: Size | None = Field(default=None, description="Experts are chosen inside the best groups only.")
    router_groups_per_token: Size = 1
    attention: Literal["mha", "mla"] = "mha"
    q_lora_rank: Size | None = None
    kv_lora_rank: Size | None = None
    qk_nope_head_size: Size | None = None
    qk_rope_head_size: Size | None = None
    value_head_size: Size | None = None
    index_heads: Count = Field(
        default=0, description="Heads of an indexer, whose scores choose the tokens that mla reads (DeepSeek-V3.2)."
    )
    index_head_size: Size | None = None
    index_tokens: Size | None = Field(default=None, description="How many tokens each query reads of those before it.")

    @model_validator(mode="after")
    def _check_experts(self) -> Self:
        if self.num_experts and self.experts_per_token > (experts := self.num_experts + self.zero_experts):
            raise ValueError(f"experts_per_token {self.experts_per_token} exceeds num_experts {experts}")
        if self.router_scores == "sparse_mixer" and self.experts_per_token != 2:
            raise ValueError(f"router_scores: sparse_mixer takes 2 experts_per_token, not {self.experts_per_token}")
        groups = self.router_groups
        if groups is not None and self.num_experts % groups:
            raise ValueError(f"num_experts {self.num_experts} is not a multiple of router_groups {groups}")
        if groups is not None and self.router_groups_per_token > groups:
            raise ValueError(f"router_groups_per_token {self.router_groups_per_token} exceeds router_groups {groups}")
        if self.num_dense_layers > self.num_layers:
            raise ValueError(f"num_dense_layers {self.num_dense_layers} exceeds num_layers {self.num_layers}")
        return self

    @model_validator(mode="after")
    def _check_latent(self) -> Self:
        needed = ("kv_lora_rank", "qk_nope_head_size", "qk_rope_head_size", "value_head_size")
        missing = [name for name in needed if getattr(self, name) is None]
        if self.attention == "mla" and missing:
            raise ValueError(f"attention: mla needs {', '.join(missing)}")
        if self.attention == "mla" and self.position_embedding != "rotary":
            raise ValueError(
                f"attention: mla rotates a part of each head: position_embedding rotary, not {self.position_embedding}"
            )
        return self

    @model_validator(mode="after")
    def _check_index(self) -> Self:
        given = (bool(self.index_heads), self.index_head_size is not None, self.index_tokens is not None)
        if any(given) and not all(given):
            raise ValueError("index_heads, index_head_size and index_tokens go together")
        if any(given) and (self.attention != "mla" or self.q_lora_rank is None):
            raise ValueError("index_heads goes with attention: mla and its q_lora_rank")
        if self.index_head_size is not None and self.index_head_size < (self.qk_rope_head_size or 0):
            raise ValueError("index_head_size is at least qk_rope_head_size, the part that is rotated")
        return self

    @model_validator(mode="after")
    def _check_layers(self) -> Self:
        if self.delta_net is not None and (self.sliding_window is not None or self.full_attention_every is None):
            raise ValueError("delta_net goes with full_attention_every and without sliding_window")
        if not self.pre_norms and not self.post_norms:
            raise ValueError("pre_norms: false goes with post_norms: true")
        if self.attention_chunks and self.sliding_window is None:
            raise ValueError("attention_chunks needs sliding_window, the size of a chunk")
        more = (
            self.fused_query_key_value or self.attention_gate or self.attention == "mla" or self.head_size is not None
        )
        if self.rotary_form == "tokens" and (more or self.rotary_fraction < 1.0):
            raise ValueError("rotary_form: tokens goes with whole heads and projections of three, without head_size")
        return self

    @property
    def mixes_layers(self) -> bool:
        """Whether only every n-th layer attends to everything as all do elsewhere: others have windows, states or turned heads."""
        unturned = self.full_attention_every is not None and not self.full_attention_rotates
        return self.sliding_window is not None or self.delta_net is not None or unturned

    def traits(self) -> Traits:
        """Return the numbers that general code asks for."""
        traits, net = super().traits(), self.delta_net
        splits = () if net is None else (("delta_net.key_heads", net.key_heads),)
        return replace(
            traits,
            tensor_splits=(*traits.tensor_splits, *splits),
            windowed=self.sliding_window is not None,
            recurrent=net is not None,
            experts=self.num_experts,
            experts_per_token=self.experts_per_token,
            expert_width=self._expert_width(),
            parameters_beside=float(sum(network.parameters for network in self.beside)),
        )

    def _expert_width(self) -> int:
        """Return the intermediate size of one expert."""
        if self.expert_intermediate_size is not None:
            return self.expert_intermediate_size
        return 4 * self.hidden_size if self.intermediate_size is None else self.intermediate_size

    def one_layer(self) -> Self:
        """Return this model with a single layer, one with experts if it has any."""
        return self.with_sizes(num_layers=1, **({"num_dense_layers": 0} if self.num_experts else {}))

    def layers_alike(self) -> Any:
        """Return the layers like that of `one_layer`: all, or those with experts; None where windows or states make them differ."""
        if self.sliding_window is not None or self.mixes_layers:
            return None
        return self.num_layers - (self.num_dense_layers if self.num_experts else 0)

    def caveats(self) -> tuple[str, ...]:
        """Return what of this model is not priced, or was never measured."""
        caveats = []
        if self.beside:
            total = sum(network.parameters for network in self.beside)
            names = " and ".join(network.name for network in self.beside)
            caveats.append(
                f"{names}: {humanize(2.0 * total, 'B', 3)} of weights in 16 bits take memory; what they compute of images is not "
                "priced, and the tokens that images become belong to the prompt"
            )
        if self.index_tokens is not None:
            caveats.append(
                f"attention to {self.index_tokens} chosen tokens: no kernel of it was measured; it is priced as one that looks "
                "back as far, and the scores of the choice in the type of the activations (engines run them in fp8)"
            )
        if self.delta_net is not None:
            caveats.append(
                "no kernel of gated delta rules was measured: priced as products of chunks of 64 tokens and, of one token, as "
                "one pass over the state"
            )
        return tuple(caveats)

    def _own_head_size(self) -> int | None:
        """Return the head size; with latent attention what queries and keys have, both parts together."""
        nope, rope = self.qk_nope_head_size, self.qk_rope_head_size
        if self.attention == "mla" and self.head_size is None and nope is not None and rope is not None:
            return nope + rope
        return self.head_size

    def completed(self) -> Self:
        """Return a copy with every derived default written out."""
        filled = super().completed()
        width = self._expert_width()
        shared = self.shared_expert_intermediate_size
        if shared is None and not (kind_of(self.num_shared_experts) is int and self.num_shared_experts == 0):
            shared = width * self.num_shared_experts
        wide = self.position_embedding != "learned" if self.softmax_in_fp32 is None else self.softmax_in_fp32
        return filled.model_copy(
            update={
                "expert_intermediate_size": width,
                "shared_expert_intermediate_size": shared,
                "softmax_in_fp32": wide,
            }
        )
