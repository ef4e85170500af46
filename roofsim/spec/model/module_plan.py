"""Describe how the modules of a captured program are split over ranks, in the words of torch.distributed."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from roofsim.schema.base import AfterValidator, BeforeValidator, Field
from roofsim.spec.strict import Strict

#: What a plan may say of a module (torch.distributed.tensor.parallel), and the same in Transformers' ``tp_plan``.
STYLES: Final = {
    "ColwiseParallel": {"style": "ColwiseParallel"},
    "RowwiseParallel": {"style": "RowwiseParallel"},
    "SequenceParallel": {"style": "SequenceParallel"},
    "PrepareModuleInput": {"style": "PrepareModuleInput"},
    "colwise": {"style": "ColwiseParallel"},
    "rowwise": {"style": "RowwiseParallel"},
    "colwise_rep": {"style": "ColwiseParallel", "output_layouts": "Replicate"},
    "sequence_parallel": {"style": "SequenceParallel"},
}
_LAYOUTS: Final = ("Replicate", "Shard(1)", "Shard(-1)")


def _style(given: Any) -> Any:
    """Return a style that is a word alone as the mapping that it stands for."""
    if not isinstance(given, str):
        return given
    known = STYLES.get(given.strip().removesuffix("()"))
    if known is None:
        from roofsim.errors import did_you_mean

        raise ValueError(f"{given!r} is no style of a module. {did_you_mean(given, STYLES)}")
    return dict(known)


def _layout(given: Any) -> Any:
    """Return a layout as PyTorch prints it, without spaces or the brackets of an empty call."""
    return re.sub(r"\(\)|\s", "", given) if isinstance(given, str) else given


def _point(given: str) -> str:
    """Return the name of a module at which a stage may begin."""
    if not given or not given.isprintable() or len(given) > 500:
        raise ValueError("expected the name of a module")
    return given


#: How a tensor lies on the ranks of a tensor group: whole, split by tokens, or by its last dimension.
ModuleLayout = Annotated[Literal["Replicate", "Shard(1)", "Shard(-1)"], BeforeValidator(_layout)]
ModuleName = Annotated[str, AfterValidator(_point)]


class ModuleStyle(Strict):
    """How the ranks of a tensor group share one module."""

    style: Literal["ColwiseParallel", "RowwiseParallel", "SequenceParallel", "PrepareModuleInput"]
    input_layouts: ModuleLayout | None = Field(
        default=None, description="How its input comes; left out: as it does. Stated, it is checked."
    )
    output_layouts: ModuleLayout | None = Field(
        default=None,
        description="How its result leaves it. Default: Shard(-1) of ColwiseParallel, Replicate of RowwiseParallel.",
    )
    parts: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1,
        description="Of ColwiseParallel: equal matrices that its weight stacks, each of which is split: 3 of queries, keys and "
        "values.",
    )


class ModulePlan(Strict):
    """Which modules a tensor group splits and how, and where a pipeline may cut. ``*`` stands for one part of a name."""

    tensor: dict[ModuleName, Annotated[ModuleStyle, BeforeValidator(_style)]] = Field(
        default={},
        description="Name of a module -> ColwiseParallel, RowwiseParallel, SequenceParallel, PrepareModuleInput.",
    )
    loss_parallel: bool = Field(
        default=False, description="Whether the loss takes logits that are split by classes (torch's loss_parallel)."
    )
    pipeline: ModuleName | tuple[ModuleName, ...] | None = Field(
        default=None,
        description="A list of modules that stages share evenly (model.layers), or the modules at which stages begin but the "
        "first: [model.layers.4, model.layers.8].",
    )

    def stack(self) -> str:
        """Return the list of modules that a pipeline cuts; empty: it cuts none."""
        if self.pipeline is None or isinstance(self.pipeline, str):
            return self.pipeline or ""
        return self.pipeline[0].rpartition(".")[0] if self.pipeline else ""
