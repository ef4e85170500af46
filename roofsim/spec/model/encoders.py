"""Describe transformers that read a whole sequence at once: encoders, and encoder-decoders."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from roofsim.records import replace
from roofsim.schema.base import Field, model_validator
from roofsim.spec.model.base import Count, Rate, Size
from roofsim.spec.model.traits import Traits
from roofsim.spec.model.transformer import TransformerModel


class EncoderModel(TransformerModel):
    """A bidirectional encoder of the BERT kind (normalisation after each residual sum)."""

    splits_tensor: ClassVar[bool] = True
    splits_sequence: ClassVar[bool] = True
    packs_samples: ClassVar[bool] = True
    stacked: ClassVar[bool] = True

    family: Literal["encoder"] = "encoder"
    max_sequence_length: Size = 512
    normalization_first: bool = Field(
        default=False, description="Norms before attention and MLP, none after the embedding."
    )
    token_types: Count = Field(default=2, description="Segment embeddings.")
    position_offset: Count = Field(
        default=0,
        description="Extra rows of the position table (RoBERTa: 2); positions are then counted from the tokens.",
    )
    relative_buckets: Size | None = Field(
        default=None,
        description="Distances that a bias on the scores tells apart, one for all layers beside the positions of "
        "`position_embedding` (MPNet); attention then runs as products of its own.",
    )
    disentangled_buckets: Size | None = Field(
        default=None,
        description="Distances on either side that disentangled attention tells apart (DeBERTa): a table of twice as many "
        "positions, whose queries and keys the projections of the content make in each layer.",
    )
    fused_query_key_value: bool = Field(default=False, description="One projection for queries, keys and values.")
    attention_output_dropout: Rate | None = Field(
        default=None, description="After the output projection (DistilBERT: 0); as `dropout`, if left out."
    )
    head: Literal["masked_lm", "span", "classification", "none"] = "masked_lm"
    num_classes: Size = Field(default=2, description="Of the classification head, and of next-sentence prediction.")
    pooler: bool | None = Field(
        default=None,
        description="A dense layer on the first token, by default with classification only; with masked_lm it brings "
        "next-sentence prediction.",
    )
    projection_size: Size | None = Field(
        default=None, description="Width of a linear layer without bias on one token, that of the prompt's end (CLIP)."
    )
    predictions_per_sequence: Size | None = Field(
        default=None, description="Masked positions that the head runs on; all of them, if left out."
    )

    @model_validator(mode="after")
    def _check_encoder(self) -> Self:
        if self.position_embedding in ("alibi", "relative"):
            raise ValueError(
                f"an encoder has position_embedding learned, rotary or none, not {self.position_embedding}"
            )
        if self.disentangled_buckets is not None:
            self._check_disentangled()
        if self.pooler and self.head == "span":
            raise ValueError("pooler: true has no use with head: span, which reads every token")
        predictions = self.predictions_per_sequence
        if predictions is not None and self.head != "masked_lm":
            raise ValueError(f"predictions_per_sequence is for head: masked_lm, not {self.head}")
        return self

    def _check_disentangled(self) -> None:
        """Refuse what the code of disentangled attention has not."""
        shared = self.num_key_value_heads not in (None, self.num_attention_heads)
        without = self.query_key_value_bias is False or (self.biases is False and self.query_key_value_bias is None)
        other = {
            "position_embedding: none": self.position_embedding != "none",
            "token_types: 0": self.token_types != 0,
            "norms after the sums": self.normalization_first,
            "as many key-value heads as heads": shared,
            "projections apart": self.fused_query_key_value,
            "biases on them": without,
            "no relative_buckets": self.relative_buckets is not None,
        }
        missing = [wanted for wanted, lacks in other.items() if lacks]
        if missing:
            raise ValueError(f"disentangled_buckets goes with {missing[0]}")

    def biases_scores(self) -> bool:
        """Tell whether layers add to the scores of their attention what no fused kernel of an engine is handed."""
        return self.relative_buckets is not None or self.disentangled_buckets is not None

    def attended(self, sequence_length: Any, image_size: Any) -> tuple[int, int] | None:
        """Return the tokens and the head size of its layers."""
        del image_size
        return int(sequence_length or self.max_sequence_length), self.hidden_size // self.num_attention_heads

    def completed(self) -> Self:
        """Return a copy with every derived default written out."""
        filled = super().completed()
        derived: dict[str, Any] = {
            "pooler": self.head == "classification",
            "attention_output_dropout": self.dropout,
        }
        return filled.model_copy(update={key: value for key, value in derived.items() if getattr(self, key) is None})


class EncoderDecoderModel(TransformerModel):
    """An encoder and a decoder with cross attention (T5, Whisper), norms before attention and MLP."""

    generates: ClassVar[bool] = True
    encodes: ClassVar[bool] = True
    splits_tensor: ClassVar[bool] = True

    family: Literal["encoder-decoder"] = "encoder-decoder"
    num_decoder_layers: Size | None = Field(default=None, description="As num_layers, if left out.")
    frontend: Literal["tokens", "audio"] = Field(
        default="tokens", description="audio: two convolutions over mel bands and sinusoidal positions (Whisper)."
    )
    mel_bands: Size = Field(default=80, description="Of the audio frontend, which reads two frames a position.")
    max_target_length: Size | None = Field(default=None, description="Positions of the decoder; as the encoder's.")
    decoder_prompt_length: Size = Field(
        default=1, description="Tokens that the decoder starts from: 1, a start token; Whisper's task prompt has 4."
    )
    relative_buckets: Size = Field(default=32, description="Distances that position_embedding: relative tells apart.")
    key_bias: bool | None = Field(default=None, description="As query_key_value_bias (Whisper: none), if left out.")
    activation_dropout: Rate = Field(default=0.0, description="Between the matmuls of the MLP (T5).")
    final_dropout: Rate = Field(default=0.0, description="After the last norm of each stack (T5).")
    scaled_output: bool = Field(default=False, description="Scale the decoder's output before a tied head (T5).")

    @model_validator(mode="after")
    def _check_positions(self) -> Self:
        if self.position_embedding in ("rotary", "alibi"):
            raise ValueError(
                f"an encoder-decoder has position_embedding learned, relative or none, not {self.position_embedding}"
            )
        if self.frontend == "audio" and self.position_embedding != "learned":
            raise ValueError(
                "frontend: audio goes with position_embedding: learned (in the decoder; the encoder's are fixed)"
            )
        return self

    def traits(self) -> Traits:
        """Return the numbers that general code asks for."""
        target = self.max_sequence_length if self.max_target_length is None else self.max_target_length
        return replace(super().traits(), longest_target=target, target_start=self.decoder_prompt_length)

    def completed(self) -> Self:
        """Return a copy with every derived default written out."""
        filled = super().completed()
        derived: dict[str, Any] = {
            "num_decoder_layers": self.num_layers,
            "max_target_length": self.max_sequence_length,
            "key_bias": filled.query_key_value_bias,
        }
        return filled.model_copy(update={key: value for key, value in derived.items() if getattr(self, key) is None})
