"""Hold what builders of blocks ask: sizes, the call of the pass, what layers share."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from roofsim.errors import Problem, SpecError
from roofsim.graph.tensor import INT64
from roofsim.lower.blocks.decoder_layers import DecoderLayers, LayerKind, SharedInputs
from roofsim.lower.blocks.graph_nodes import Edges, rows_of_nodes, sampled
from roofsim.numeric import any_above, ceil, real, same
from roofsim.records import dataclass, field, replace
from roofsim.spec.model.layers.amounts import worked_out
from roofsim.spec.model.transformer import DecoderModel
from roofsim.symbols import settled

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from roofsim.graph.tensor import Tensor
    from roofsim.lower.blocks.convolutional import VisionLayers
    from roofsim.lower.call import Call
    from roofsim.numeric import Real
    from roofsim.spec.model.layers.mixers import AttentionBlock
    from roofsim.spec.model.layers.model import LayersModel


@dataclass
class Context:
    """What builders of blocks ask, and what they leave for later ones.

    Attributes
    ----------
    sizes
        The named sizes, worked out.
    table
        The table of the embedding, for a head that is tied to it.
    shared
        Rotary tables and masks, by what they depend on.
    made_shared
        The attention blocks whose tables and masks were made, by their identity.
    parts
        Parts of vectors that condition tokens, by the vector.
    routers
        Under which name the router of predicted streams shares its weights, by the streams.
    """

    model: LayersModel
    call: Call
    layers: VisionLayers
    sizes: dict[str, Real]
    table: Tensor | None = None
    shared: dict[Any, Any] = field(default_factory=dict)
    made_shared: set[int] = field(default_factory=set)
    edges: Edges | None = None
    parts: dict[Tensor, tuple[Tensor, ...]] = field(default_factory=dict)
    routers: dict[Tensor, str] = field(default_factory=dict)

    # -- sizes --------------------------------------------------------------------------------------------------

    def size(self, amount: Any) -> Real:
        """Return what an amount of a block comes to."""
        return worked_out(amount, self.sizes)

    def each(self, given: Any) -> Real | tuple[Real, ...]:
        """Return one size, or one for each dimension."""
        return tuple(map(self.size, given)) if isinstance(given, tuple) else self.size(given)

    def count(self, amount: Any) -> float:
        """Return a number that decides structure."""
        return float(settled(self.size(amount)))

    def nodes_of(self, batch: Real) -> Tensor:
        """Take a batch in, of whole graphs or of nodes with sampled neighbours: its edges, and the features of its nodes.

        Raises
        ------
        SpecError
            When it has more such nodes than the graph.
        """
        model, width = self.model, self.size(self.model.in_features)
        nodes, edges = real(model.num_nodes), real(model.num_edges)
        if model.sampling is None:
            self.edges = Edges.of(self.layers, batch * edges)
            return self.layers.b.input("node_features", batch * nodes, width)
        if any_above(batch, nodes):
            raise SpecError(
                Problem(
                    f"a batch has more nodes than the graph, which has {model.num_nodes:,.0f}",
                    path="workload.micro_batch_size",
                    hint="A sample is a node whose neighbours are drawn; without model.sampling each is a whole graph.",
                    code="seeds-of-graph",
                )
            )
        wanted, drawn = sampled(batch, tuple(map(real, model.sampling.fanouts)), nodes, edges)
        self.edges = Edges.of(self.layers, drawn)
        return rows_of_nodes(self.layers, wanted, nodes, width, model.sampling.features)

    def answers(self, x: Tensor) -> Tensor:
        """Return the rows that a loss compares: all, or of a batch with sampled neighbours those of its own nodes, the first."""
        sampled_batch = self.model.sampling is not None
        return self.layers.view(x, "slice", self.call.batch, *x.shape[1:]) if sampled_batch else x

    def wrong_size(self, why: str) -> SpecError:
        """Return the refusal of images (or volumes) whose sides the model's layers do not divide."""
        model = self.model
        path = "workload.image_size" if model.sides is None else "model.sizes"
        return SpecError(
            Problem(
                f"{model.name} does not take images of this size: {why}",
                path="model.more_inputs" if model.counted_in == "tokens" and model.more_inputs else path,
                hint="Its usual size, or a multiple of what its stages divide by, fits.",
                code="image-size",
            )
        )

    def parts_of(self, length: Real, part: Real, what: str) -> Real:
        """Return how many parts a length has.

        Raises
        ------
        SpecError
            When it is no whole number of them.
        """
        if not same(ceil(length / part) * part, length):
            raise self.wrong_size(f"{what} {length:,g} is not a multiple of {part:,g}")
        return length / part

    # -- tensors ------------------------------------------------------------------------------------------------

    def is_ids(self, x: Tensor) -> bool:
        """Tell whether a tensor holds token ids."""
        return x.dtype is INT64

    def is_map(self, x: Tensor) -> bool:
        """Tell whether a tensor is of maps: more than one dimension behind its channels."""
        return len(x.shape) > 3

    def scope(self, leaf: str, *, own: bool) -> AbstractContextManager[None]:
        """Open a component for a block, unless it opens its own."""
        return nullcontext() if own else self.layers.b.scope(leaf)

    # -- parts of decoders --------------------------------------------------------------------------------------

    def part(self, x: Tensor, *, causal: bool = True, adapter_rank: Real | None = None, **fields: Any) -> DecoderLayers:
        """Return the layers of a decoder of one layer with these fields, for tokens like `x`."""
        sizes: dict[str, Any] = {
            "num_layers": 1.0,
            "num_attention_heads": 1.0,
            "vocab_size": 1.0,
            "hidden_size": x.shape[-1],
        }
        sizes |= {"max_sequence_length": real(self.model.max_sequence_length), "position_embedding": "none"}
        sizes |= {"dropout": 0.0, "biases": False}
        made = DecoderModel.model_construct(**(sizes | fields)).completed()
        call = self.call
        if self.model.inputs != "tokens":
            call = replace(call, length=x.shape[1])
        elif not causal and self.model.more_inputs:  # tokens of images, which no later token asks for
            call = replace(call, length=x.shape[1], phase="forward" if call.cached else call.phase)
        return replace(DecoderLayers.of(made, call, self.layers, causal=causal), adapter_rank=adapter_rank)

    def attention(self, block: AttentionBlock, x: Tensor) -> tuple[DecoderLayers, LayerKind]:
        """Return the part that builds an attention block, and its kind."""
        fields = self.fields(block)
        causal = fields.pop("causal")
        fields.pop("positions", None)
        window = fields.get("sliding_window")
        # All that attention asks the width of a model for is what it hands on.
        fields |= {"hidden_size": fields.pop("output_size")} if "output_size" in fields else {}
        part = self.part(x, causal=self.model.causal if causal is None else causal, **fields)
        return part, LayerKind(window, expert=False)

    def fields(self, block: Any) -> dict[str, Any]:
        """Return the fields of a block that says something, its amounts worked out."""
        known = {name: value for name, value in block if value is not None}
        for name, value in known.items():
            if name in _AMOUNTS:
                known[name] = self.size(value)
        return known | {name: None for name, value in block if value is None and name == "causal"}

    # -- what layers share --------------------------------------------------------------------------------------

    def share(self, attention: list[AttentionBlock], x: Tensor) -> None:
        """Make the tables and masks of all attention blocks for tokens like `x`, each once."""
        self.made_shared.update(map(id, attention))
        for block in attention:
            self.shared_of(block, *self.attention(block, x), x)

    def shared_of(self, block: AttentionBlock, part: DecoderLayers, kind: LayerKind, x: Tensor) -> SharedInputs:
        """Return what an attention block reads beside its tokens; made here, where no other block has made it."""
        own = (part.length,)
        tables = self._known(("tables", *(getattr(block, name) for name in _OF_TABLES)), own, lambda: part.tables(x))
        key = ("mask", part.causal, *(getattr(block, name) for name in _OF_MASKS))
        leaf = "mask" if kind.window is None else "window_mask"
        mask = self._known(key, own, lambda: part.mask(leaf, kind.window))
        return SharedInputs(tables, mask, mask)

    def turning(self, tokens: Real, make: Any) -> Any:
        """Return the rotary tables of so many tokens, made where none are known."""
        return self._known(("turning",), (tokens,), make)

    def _known(self, key: Any, own: tuple[Real, ...], make: Any) -> Any:
        lengths, made = self.shared.get(key, (None, None))
        if lengths is not None and all(map(same, lengths, own)):
            return made
        made = make()
        if self.layers.b.block is None:
            self.shared[key] = (own, made)
        return made


#: Fields of blocks that are amounts.
_AMOUNTS = frozenset(
    {
        "num_attention_heads",
        "num_key_value_heads",
        "head_size",
        "output_size",
        "adapter_rank",
        "sliding_window",
        "q_lora_rank",
        "kv_lora_rank",
        "qk_nope_head_size",
        "qk_rope_head_size",
        "value_head_size",
        "intermediate_size",
        "num_experts",
        "experts_per_token",
        "zero_experts",
        "expert_intermediate_size",
        "num_shared_experts",
        "shared_expert_intermediate_size",
        "router_groups",
        "router_groups_per_token",
    }
)
#: Fields of attention that its rotary tables depend on, and those that its mask depends on.
_OF_TABLES = (
    "position_embedding",
    "rotary_fraction",
    "rotary_form",
    "attention",
    "head_size",
    "num_attention_heads",
    "qk_rope_head_size",
)
_OF_MASKS = (
    "sliding_window",
    "position_embedding",
    "num_attention_heads",
    "num_key_value_heads",
    "head_size",
    "attention",
    "value_head_size",
    "attention_soft_cap",
    "attention_sinks",
)
