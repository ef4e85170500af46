"""Choose the attention kernel of an encoder: an engine may have a fused one for some cards, types and lengths only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.errors import Problem, SpecError

if TYPE_CHECKING:
    from roofsim.spec.engine.schema import Engine
    from roofsim.spec.model.base import ModelSpec
    from roofsim.spec.precision.roles import Precision
    from roofsim.spec.scenario.workload import Workload

_NARROW: Final = ("int8", "fp8")
_SIXTEEN: Final = ("fp16", "bf16")


def with_encoder_attention(
    engine: Engine, model: ModelSpec, workload: Workload, architecture: str, precision: Precision
) -> Engine:
    """Return the engine as it runs this pass: with its fused kernel for encoders, where that takes what it is given.

    Raises
    ------
    SpecError
        For a fused kernel that is asked for and adds nothing to the scores, where the model does.
    """
    if model.biases_scores():
        return _unfused(engine, workload)
    kernel = engine.attention.encoder
    if kernel is None or workload.phase != "forward":
        return engine
    attended = model.attended(workload.sequence_length, workload.image_size)
    if attended is None:
        return engine
    tokens, head_size = attended
    where = kernel.narrow_architectures if precision.math in _NARROW else kernel.architectures
    wide = precision.math not in (*_NARROW, *_SIXTEEN)
    if wide or architecture not in where or tokens > kernel.longest or head_size not in kernel.head_sizes:
        return engine
    return engine.changed(
        attention="flash", attention_generation=kernel.generation, packs_heads=kernel.packs, windows=kernel.windows
    )


def _unfused(engine: Engine, workload: Workload) -> Engine:
    if workload.attention not in (None, "unfused"):
        raise SpecError(
            Problem(
                f"attention {workload.attention} adds nothing to the scores, and the model's layers do",
                path="workload.attention",
                hint="Leave it out, or write unfused: its products run as kernels of their own.",
            )
        )
    return engine if engine.attention.implementation == "unfused" else engine.changed(attention="unfused")
