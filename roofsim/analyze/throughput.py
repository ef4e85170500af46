"""Count what a step handles: samples, and tokens or images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.numeric import Real, real
from roofsim.spec.model.registry import family_schema

if TYPE_CHECKING:
    from roofsim.spec.resolve import Resolved


def units_per_step(resolved: Resolved) -> tuple[Real, Real, str]:
    """Return samples and units (tokens or images) that one step handles, and the unit's name."""
    workload = resolved.workload
    trains = workload.phase == "train"
    samples = real(workload.global_batch_size if trains else workload.micro_batch_size)
    if not trains:  # each data-parallel replica runs a batch of its own
        samples = samples * real(resolved.parallel.data)
    if workload.phase in ("decode", "generate"):  # each answer is one, the beams of a search are not
        samples = samples * real(workload.num_return_sequences or 1)
    if resolved.model.sample_unit != "tokens":
        return samples, samples, resolved.model.sample_unit
    tokens: Real = 1.0
    if workload.phase in ("train", "forward"):
        length = workload.sequence_length if workload.target_length is None else workload.target_length
        tokens = real(1.0 if length is None else length)
    elif workload.phase == "prefill":
        tokens = tokens_read(resolved)
    elif workload.phase == "generate":
        tokens = real(workload.output_length)
    return samples, samples * tokens, "tokens"


def counted_in(unit: str, family: str, phase: str) -> str:
    """Return what throughput and cost count: a pass of a denoiser is a step towards an image, not an image.

    >>> counted_in("images", "dit", "forward"), counted_in("images", "dit", "train")
    ('denoising steps', 'images')
    """
    return "denoising steps" if unit == "images" and phase == "forward" and family_schema(family).denoises else unit


def tokens_read(resolved: Resolved) -> Real:
    """Return the tokens of one sequence that a prefill reads: those of the prompt, or positions of an encoder."""
    workload = resolved.workload
    encodes = resolved.model.encodes
    return real(workload.sequence_length if encodes else workload.prompt_length)
