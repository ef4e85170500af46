"""Lower bidirectional encoders: BERT, RoBERTa, DistilBERT, with the heads they are trained with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.errors import Problem, SpecError
from roofsim.graph.builder import Builder
from roofsim.graph.component import Purpose
from roofsim.graph.ops import Elementwise, Gather, Sort
from roofsim.graph.tensor import BOOL, INT32, INT64, DType, Tensor
from roofsim.lower.blocks.attention import attend, rotary_tables, rotate
from roofsim.lower.blocks.disentangled import Distances, disentangled, distances, present
from roofsim.lower.blocks.exchange import enter, leave, whole_vocabulary
from roofsim.lower.blocks.heads import Heads
from roofsim.lower.blocks.layers import Layers
from roofsim.lower.blocks.losses import cross_entropy
from roofsim.lower.blocks.mlp import dense_mlp
from roofsim.lower.blocks.projections import ProjectionBiases, project
from roofsim.lower.blocks.relative_bias import bucketed_bias
from roofsim.lower.shares import Shares, one
from roofsim.numeric import Real, exactly, product
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.lower.call import Call
    from roofsim.spec.model.encoders import EncoderModel


def lower_encoder(model: EncoderModel, call: Call) -> OpGraph:
    """Build one pass of an encoder over ``batch x length`` tokens.

    Raises
    ------
    SpecError
        When a model without a head is to be trained: there is no loss.
    """
    if call.trains and model.head == "none":
        raise SpecError(
            Problem(
                "an encoder without a head has no loss to train on",
                path="model.head",
                hint="Give it head: masked_lm, span or classification, or ask for phase: forward.",
            )
        )
    b = Builder()
    return _Encoder(_share(model, call.shares), call, b, Layers(b, call.flavour, call.shares)).build()


def _share(model: EncoderModel, shares: Shares) -> EncoderModel:
    """Return the model as one rank of a tensor group holds it; its width stays whole."""
    if one(shares.tensor):
        return model
    kv_heads, width = model.num_key_value_heads, model.intermediate_size
    assert kv_heads is not None
    assert width is not None
    return model.model_copy(
        update={
            "num_attention_heads": model.num_attention_heads / shares.tensor,
            "num_key_value_heads": shares.of_heads(kv_heads),
            "intermediate_size": shares.of_tensor(width),
            "vocab_size": shares.of_tensor(model.vocab_size),
        }
    )


@dataclass(frozen=True)
class _Encoder:
    model: EncoderModel
    call: Call
    b: Builder
    layers: Layers

    @property
    def length(self) -> Real:
        """Tokens per sequence on this rank of a context group."""
        return self._whole_length / self.layers.shares.context

    @property
    def _whole_length(self) -> Real:
        return self.model.max_sequence_length if self.call.length is None else self.call.length

    @property
    def outer_length(self) -> Real:
        """Tokens per sequence between the regions that a tensor group splits."""
        return self.layers.shares.of_tokens(self._whole_length)

    def build(self) -> OpGraph:
        model, b, layers = self.model, self.b, self.layers
        tokens = b.input("input_ids", self.call.batch, self.length, dtype=INT64)
        mask = None
        if model.disentangled_buckets is not None:
            mask = present(layers, self.call.batch, self.length)
        x, table = self._embed(tokens, mask)
        tables = None
        if model.position_embedding == "rotary":
            assert model.head_size is not None
            tables = rotary_tables(layers, self.length, model.head_size, x)
        added = self._bias() if mask is None else self._distances(mask)
        with b.repeat("layers", model.num_layers):
            x = b.carry(x, self._layer(x, tables, added))
        if model.normalization_first:
            x = self._norm(x, "final_norm")
        self._head(x, table)
        return b.graph()

    # -- embedding ----------------------------------------------------------------------------------------------

    def _embed(self, tokens: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Sum the embeddings of token, segment and position; a mask of what is no padding clears the rest."""
        model, b, layers = self.model, self.b, self.layers
        with b.scope(Purpose.EMBEDDING):
            outer = self._outer(tokens)
            positions = self._position_indices(outer)
            segments = self._segment_indices(outer, positions)
            table = b.parameter("weight", model.vocab_size, model.hidden_size)
            x = leave(layers, layers.lookup(tokens, table))
            if segments is not None:
                x = layers.add(x, layers.embedding(segments, model.token_types, model.hidden_size, Purpose.SEGMENTS))
            if model.position_embedding == "learned":
                rows = model.max_sequence_length + model.position_offset
                x = layers.add(x, layers.embedding(positions, rows, model.hidden_size, Purpose.POSITIONS))
            if not model.normalization_first:
                x = self._norm(x, "norm")
            if mask is not None:
                column = self._outer(layers.view(mask, "reshape", *mask.shape, 1.0))
                x = layers.mul(x, layers.cast(column, x))
            return layers.dropout(x, model.embedding_dropout or 0.0), table

    def _outer(self, tokens: Tensor) -> Tensor:
        """Return the tokens that a rank of a tensor group holds where the sequence is split over it."""
        if self.layers.shares.sequence and not one(self.layers.shares.tensor):
            return self.layers.view(tokens, "slice", tokens.shape[0], self.outer_length, *tokens.shape[2:])
        return tokens

    def _position_indices(self, tokens: Tensor) -> Tensor:
        """Return ``0, 1, 2, ...``, or, where padding shifts positions, a count of the tokens before each."""
        model, b = self.model, self.b
        if exactly(model.position_offset, 0.0):
            buffer = b.buffer("position_ids", model.max_sequence_length, dtype=INT64)
            return self.layers.view(buffer, "slice", self.outer_length)
        present = self._integers("to_int", INT32, self._integers("compare", BOOL, tokens))
        running = b.tensor("running", *tokens.shape, dtype=INT64)
        b.emit(Sort, "cumsum", inputs=(present,), outputs=(running,), function="cumsum")
        before = self._integers("add_scalar", INT32, self._integers("to_int", INT32, running))
        counted = self._integers("to_int", INT64, self._integers("mul", INT32, before, present))
        return self._integers("add_scalar", INT64, counted)

    def _integers(self, function: str, dtype: DType, *inputs: Tensor) -> Tensor:
        out = self.b.tensor(function, *inputs[0].shape, dtype=dtype)
        self.b.emit(Elementwise, function, inputs=inputs, outputs=(out,), function=function)
        return out

    def _segment_indices(self, tokens: Tensor, positions: Tensor) -> Tensor | None:
        """Return the segments that the library fills in when the batch brings none: a row of zeros shown to all."""
        model, b = self.model, self.b
        if exactly(model.token_types, 0.0):
            return None
        buffer = b.buffer("token_type_ids", model.max_sequence_length + model.position_offset, dtype=INT64)
        row = b.tensor("segments", *positions.shape, dtype=INT64)
        b.emit(Gather, "segments", inputs=(buffer, positions), outputs=(row,), function="gather")
        return row if len(row.shape) == len(tokens.shape) else self.layers.view(row, "expand", *tokens.shape)

    # -- layers -------------------------------------------------------------------------------------------------

    def _norm(self, x: Tensor, leaf: str) -> Tensor:
        return self.layers.norm(x, self.model.normalization, leaf, bias=bool(self.model.normalization_bias))

    def _bias(self) -> Tensor | None:
        """Return what all layers add to their scores, written out for every sequence: rows of this rank's queries."""
        model, shares = self.model, self.layers.shares
        if model.relative_buckets is None:
            return None
        dealt = shares.context_heads if shares.swaps_heads else 1.0
        sizes = (self.length * dealt, self._whole_length, model.num_attention_heads / dealt)
        bias = bucketed_bias(self.layers, *sizes, model.relative_buckets, both_ways=True)
        return self.layers.copy(bias, "expand", (self.call.batch, *bias.shape))

    def _distances(self, mask: Tensor) -> Distances:
        """Return what disentangled attention reads in all layers."""
        model = self.model
        assert model.disentangled_buckets is not None
        if not one(self.layers.shares.context):
            raise SpecError(
                Problem(
                    "disentangled attention is not built for a context group, of whose ranks each would score all positions",
                    path="parallel.context",
                    hint="Split over tensor ranks, or copy the model: context: 1.",
                )
            )
        return distances(self.layers, mask, model.hidden_size, model.disentangled_buckets, model.dropout)

    def _layer(self, x: Tensor, tables: tuple[Tensor, Tensor] | None, added: Tensor | Distances | None) -> Tensor:
        layers = self.layers
        if self.model.normalization_first:
            x = layers.add(self._attention(self._norm(x, "attention_norm"), tables, added), x)
            return layers.add(self._mlp(self._norm(x, "mlp_norm")), x)
        x = self._norm(layers.add(self._attention(x, tables, added), x), "attention_norm")
        return self._norm(layers.add(self._mlp(x), x), "mlp_norm")

    def _heads(self) -> Heads:
        model = self.model
        assert model.num_key_value_heads is not None
        assert model.head_size is not None
        return Heads(
            heads=model.num_attention_heads,
            kv_heads=model.num_key_value_heads,
            head_size=model.head_size,
            value_head_size=model.head_size,
            causal=False,
            dropout=model.attention_dropout or 0.0,
            wide_softmax=model.position_embedding == "rotary",
            biased=model.relative_buckets is not None,
        )

    def _attention(self, x: Tensor, tables: tuple[Tensor, Tensor] | None, added: Tensor | Distances | None) -> Tensor:
        model, layers = self.model, self.layers
        heads = self._heads()
        with self.b.scope(Purpose.SELF_ATTENTION):
            x = enter(layers, x)
            if isinstance(added, Distances):
                context = disentangled(layers, heads, x, added)
            else:
                biases = ProjectionBiases.all(bool(model.query_key_value_bias))
                q, k, v = project(layers, x, heads, biases, fused=model.fused_query_key_value)
                if tables is not None:
                    q, k = (
                        rotate(layers, q, tables, Purpose.ROTATE_QUERY),
                        rotate(layers, k, tables, Purpose.ROTATE_KEY),
                    )
                context = attend(layers, self.call, heads, q, k, v, bias=added)
            out = layers.linear(context, model.hidden_size, Purpose.OUTPUT, bias=bool(model.attention_output_bias))
            return layers.dropout(leave(layers, out), model.attention_output_dropout or 0.0)

    def _mlp(self, x: Tensor) -> Tensor:
        model, layers = self.model, self.layers
        assert model.intermediate_size is not None
        with self.b.scope(Purpose.MLP):
            out = dense_mlp(layers, model, enter(layers, x), model.intermediate_size)
            return layers.dropout(leave(layers, out), model.dropout)

    # -- heads --------------------------------------------------------------------------------------------------

    def _head(self, x: Tensor, table: Tensor) -> None:
        model, layers = self.model, self.layers
        with self.b.scope(Purpose.HEAD):
            pooled = self._pool(x) if model.pooler else None
            losses = []
            if model.head == "masked_lm":
                losses.append(self._masked_lm(x, table))
            if model.head == "span":
                losses += self._span(x)
            elif pooled is not None and model.head != "none":
                losses.append(self._classify(pooled))
            if model.projection_size is not None:
                last = layers.view(x, "slice", x.shape[0], x.shape[2])
                layers.linear(last, model.projection_size, Purpose.PROJECTION)
            if self.call.trains and len(losses) > 1:
                total = layers.add(*losses)
                if model.head == "span":
                    layers.pointwise("div_scalar", total)

    def _pool(self, x: Tensor) -> Tensor:
        """Apply a dense layer and tanh to the first token; the view keeps the whole sequence alive."""
        first = self.layers.view(x, "slice", x.shape[0], x.shape[2])
        return self.layers.pointwise("tanh", self.layers.linear(first, x.shape[2], "pooler", bias=True))

    def _masked_lm(self, x: Tensor, table: Tensor) -> Tensor:
        """Transform each (masked) position and compare it with all words."""
        model, b, layers = self.model, self.b, self.layers
        entered = x
        x = layers.view(x, "reshape", product(*x.shape[:2]), model.hidden_size)
        if model.predictions_per_sequence is not None:
            share = self.outer_length / self._whole_length
            indices = b.input("masked_positions", self.call.batch * model.predictions_per_sequence * share, dtype=INT64)
            chosen = b.tensor("masked", indices.numel, model.hidden_size)
            b.emit(Gather, "masked", inputs=(x, indices), outputs=(chosen,), function="index")
            x = chosen
        assert model.activation is not None
        with b.scope("transform"):
            dense = layers.linear(x, model.hidden_size, "dense", bias=bool(model.biases))
            x = self._norm(layers.activation(dense, model.activation), "norm")
        weight = table if model.tie_embeddings else None
        logits = layers.linear(enter(layers, x), model.vocab_size, Purpose.LOGITS, weight=weight, bias=True)
        if not self.call.trains:
            return whole_vocabulary(layers, logits)
        return cross_entropy(layers, logits, layers.labels(x.shape[0]), entered, upcast=False)

    def _span(self, x: Tensor) -> list[Tensor]:
        """Score each token as the start and as the end of an answer."""
        layers = self.layers
        scores = layers.linear(x, 2.0, "span", bias=True)
        parts = layers.split(scores, 1.0, 1.0)
        logits = [layers.copy(part, "contiguous", part.shape[:2]) for part in parts]
        if not self.call.trains:
            return logits
        # Positions beyond the sequence are clamped to its end.
        ends = [layers.pointwise("clamp", layers.labels(part.shape[0]), dtype=INT64) for part in logits]
        return [cross_entropy(layers, part, end, x, upcast=False) for part, end in zip(logits, ends, strict=True)]

    def _classify(self, pooled: Tensor) -> Tensor:
        """Classify the pooled token: a head of its own, or next-sentence prediction beside the masked words."""
        model, layers = self.model, self.layers
        if model.head == "classification":
            pooled = layers.dropout(pooled, model.dropout)
        logits = layers.linear(pooled, model.num_classes, Purpose.CLASSIFIER, bias=True)
        if not self.call.trains:
            return logits
        return cross_entropy(layers, logits, layers.labels(pooled.shape[0]), upcast=False)


__all__ = ["lower_encoder"]
