"""Describe low-rank adapters of a fine-tuning run: rank, what they are beside, and how the frozen base is stored."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from roofsim.errors import did_you_mean
from roofsim.schema.base import Field, field_validator, model_validator
from roofsim.spec.model.base import Rate
from roofsim.spec.model.layer_names import layers_called
from roofsim.spec.strict import Strict

#: What a linear layer can be called, beside the names that the transformers library gives it.
TARGETS: Final = ("query", "key", "value", "output", "gate", "up", "down")
#: Matrices that stand for several of these, whether a model has them merged or apart.
_MERGED: Final = {"query_key_value": ("query", "key", "value"), "gate_up": ("gate", "up")}
_LIBRARY_NAMES: Final = _MERGED | {
    name: tuple(part for layer in layers for part in _MERGED.get(layer, (layer,)))
    for name, layers in layers_called().items()
}
#: Words for several layers at once. ``all-linear``: every linear layer but the head, as peft understands it.
_GROUPS: Final = {"attention": ("query", "key", "value", "output"), "mlp": ("gate", "up", "down")}
ALL_LINEAR: Final = "all-linear"


class Adapter(Strict):
    """Low-rank adapters (LoRA, arXiv 2106.09685) on a frozen model, which QLoRA (arXiv 2305.14314) stores in few bits."""

    kind: Literal["lora", "qlora"] = Field(default="lora", description="qlora: the frozen linear layers are quantised.")
    rank: Annotated[int, Field(gt=0, le=100_000)] = Field(default=16, description="Rank of the two factors.")
    alpha: Annotated[float, Field(gt=0.0)] = Field(
        default=32.0, description="The adapters' output is scaled by alpha / rank; costs nothing more or less."
    )
    targets: str | tuple[str, ...] = Field(
        default=ALL_LINEAR,
        description="Layers with an adapter: a list of query, key, value, output, gate, up, down, or attention, mlp, "
        "all-linear, or names of the transformers library (q_proj, c_attn, fc1). Part of a fused projection: one adapter "
        "padded with zeros, as microsoft/LoRA's MergedLinear.",
    )
    dropout: Rate = Field(default=0.05, description="Rate of the dropout before each adapter.")
    base: Literal["nf4", "int8", "none"] | None = Field(
        default=None,
        description="How the frozen linear layers are stored; left out: nf4 with qlora; with lora as in the checkpoint, where "
        "the engine trains beside such weights; none: in 16 bits.",
    )
    double_quantization: bool = Field(default=True, description="nf4: whether the blocks' scales have 8 bits, not 32.")
    weights: Literal["fp32", "parameters"] | None = Field(
        default=None,
        description="Type of the adapters: fp32 (cast to the compute type where they are used), or that of the other "
        "parameters. Left out: fp32 with engine huggingface, whose peft makes them so.",
    )
    keeps_input: bool | None = Field(
        default=None,
        description="Whether quantised layers keep their input until backward. Left out: int8 does, nf4 does not "
        "(bitsandbytes before 0.43.2 did in 4 bits too, pull request 1270).",
    )

    @field_validator("targets")
    @classmethod
    def _known(cls, given: str | tuple[str, ...]) -> str | tuple[str, ...]:
        words = (given,) if isinstance(given, str) else given
        if not words:
            raise ValueError("expected at least one target; got none")
        known = (*TARGETS, *_GROUPS, ALL_LINEAR, *_LIBRARY_NAMES)
        for word in words:
            if word not in known:
                hint = did_you_mean(word, known)
                raise ValueError(
                    f"unknown target {word!r}; known: {', '.join((*TARGETS, *_GROUPS, ALL_LINEAR))}. {hint}"
                )
        return given

    @model_validator(mode="after")
    def _base_fits(self) -> Self:
        if self.kind == "lora" and self.base not in (None, "none"):
            raise ValueError(f"base: {self.base} goes with kind: qlora")
        if self.kind == "qlora" and self.base == "none":
            raise ValueError("kind: qlora needs base: nf4 or int8; with base: none it is kind: lora")
        if self.keeps_input is not None and self.kind == "lora":
            raise ValueError("keeps_input is a fact of quantised layers: it goes with kind: qlora")
        return self

    @property
    def storage(self) -> str | None:
        """Format of the frozen linear layers: ``nf4``, ``nf4-dq``, ``int8``; None: as the other parameters.

        >>> Adapter(kind="qlora").storage
        'nf4-dq'
        """
        if self.kind == "lora":
            return None
        base = self.base or "nf4"
        return f"{base}-dq" if base == "nf4" and self.double_quantization else base

    @property
    def layers(self) -> frozenset[str] | None:
        """Names of the layers with an adapter; None: every linear layer but the head.

        >>> sorted(Adapter(targets=("q_proj", "mlp")).layers)
        ['down', 'gate', 'query', 'up']
        """
        words = (self.targets,) if isinstance(self.targets, str) else self.targets
        if ALL_LINEAR in words:
            return None
        names: set[str] = set()
        for word in words:
            names.update(_GROUPS.get(word) or _LIBRARY_NAMES.get(word) or (word,))
        return frozenset(names)
