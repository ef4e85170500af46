"""Build both ends of language models: tables of tokens and positions, and the head with its loss or its samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Elementwise
from roofsim.graph.tensor import FP32, INT64, Tensor
from roofsim.lower.blocks.exchange import enter, leave, sample
from roofsim.lower.blocks.losses import cross_entropy
from roofsim.numeric import product

if TYPE_CHECKING:
    from roofsim.lower.blocks.decoder_layers import DecoderLayers


def embed(parts: DecoderLayers, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return the embedded tokens ``[batch, length, hidden]`` and the table of tokens."""
    model, b, layers = parts.model, parts.b, parts.layers
    with b.scope(Purpose.EMBEDDING):
        width = model.hidden_size if model.embedding_size is None else model.embedding_size
        table = b.parameter("weight", model.vocab_size, width)
        x = leave(layers, layers.lookup(tokens, table))
        if model.embedding_size is not None:
            x = layers.linear(x, model.hidden_size, Purpose.PROJECT_IN)
        if model.embedding_scale:
            x = layers.pointwise("mul_scalar", x)
        if model.position_embedding == "learned":
            x = layers.add(x, learned_positions(parts))
        if model.embedding_normalization:
            x = parts.norm(x, "norm")
        return layers.dropout(x, model.embedding_dropout or 0.0), table


def learned_positions(parts: DecoderLayers) -> Tensor:
    """Return the rows of the table of positions, of each sequence where they are counted from an offset."""
    model, b = parts.model, parts.b
    with b.scope(Purpose.POSITIONS):
        # Positions after an offset are counted per sequence, from the tokens that are no padding.
        length = parts.outer_length
        shape = (parts.call.batch, length) if model.position_offset else (length,)
        indices = b.tensor("indices", *shape, dtype=INT64)
        b.emit(Elementwise, "arange", inputs=(), outputs=(indices,), function="arange")
        table = b.parameter("weight", model.max_sequence_length + model.position_offset, model.hidden_size)
        return parts.layers.lookup(indices, table)


def language_head(parts: DecoderLayers, x: Tensor, table: Tensor | None) -> Tensor:
    """Return the loss of ``[batch, length, hidden]``, or the logits, those of the last token where a cache is filled.

    `table` is that of the embedding, which a model with tied embeddings multiplies by.
    """
    model, layers, call = parts.model, parts.layers, parts.call
    if call.cached:
        x = layers.view(x, "slice", call.batch, 1.0, model.hidden_size)
    with parts.b.scope(Purpose.HEAD):
        if model.embedding_size is not None:
            x = layers.linear(x, model.embedding_size, Purpose.PROJECT_OUT)
        x, tied = enter(layers, x), table if model.tie_embeddings else None
        logits = layers.linear(x, model.vocab_size, Purpose.LOGITS, weight=tied, bias=model.head_bias)
        if model.logit_scale:
            logits = layers.pointwise("mul_scalar", logits)
        if model.logit_soft_cap:
            logits = layers.soft_cap(logits)
        if model.logits_in_fp32:
            logits = layers.cast(logits, FP32)
        if call.trains:
            return _loss(parts, logits, x)
        sample(layers, call, logits)
        return logits


def _loss(parts: DecoderLayers, logits: Tensor, x: Tensor) -> Tensor:
    layers = parts.layers
    tokens = product(*x.shape[:2])
    flat = layers.view(logits, "reshape", tokens, parts.model.vocab_size)
    labels = layers.labels(tokens)
    if layers.flavour.engine.fusion.cross_entropy == "upcast":
        labels = layers.copy(labels, "shift")
    return cross_entropy(layers, flat, labels, x)
