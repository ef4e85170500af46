"""Refuse sizes that a phase or a family has no use for, and those that do not divide one another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.spec.rules.rule import Rule, ScenarioCase
from roofsim.spec.scenario.layout import nearest
from roofsim.spec.scenario.workload import SERVING

if TYPE_CHECKING:
    from roofsim.spec.model.base import ModelSpec
    from roofsim.spec.scenario.point import Number

GENERATION: Final = ("prefill", "decode", "generate")
_LENGTHS: Final = ("prompt_length", "output_length", "context_length")


def named(model: ModelSpec) -> str:
    """Return a model's family with its article.

    >>> from roofsim.spec.model.base import ModelSpec
    >>> named(ModelSpec(family="encoder-decoder")), named(ModelSpec(family="unet"))
    ('an encoder-decoder', 'a unet')
    """
    return f"{'an' if model.family[0] in 'aeio' else 'a'} {model.family}"


def micro_batch(case: ScenarioCase) -> Number:
    """Return the micro batch, under either name; 1 where nobody states it."""
    point = case.point
    return next((size for size in (point.micro_batch_size, point.batch_size) if size is not None), 1)


def _takes_images(case: ScenarioCase) -> bool:
    return case.model.sample_unit == "images"


def _phase_unknown(case: ScenarioCase) -> tuple[str, str]:
    """Say that a model generates no tokens, and which phases it has."""
    message = f"{case.workload.phase} is for models that generate tokens; {case.model.name} is {named(case.model)}"
    if case.model.networks:
        return message, "Use forward (or generate): a pipeline of networks makes images, and is not trained as a whole."
    pipeline = case.traits.whole_pipeline
    whole = f" Whole images, many steps each: the model {pipeline}, phase forward." if pipeline else ""
    return message, f"Use forward or train.{whole}"


def _of_serving(key: str) -> Rule[ScenarioCase]:
    return Rule(
        "serving-word",
        f"workload.{key}",
        lambda case: getattr(case.workload, key) is not None,
        lambda _: ("describes a running server", "`roofsim serve` answers it; here use batch_size."),
    )


def _of_generation(key: str) -> Rule[ScenarioCase]:
    return Rule(
        "length-of-generation",
        f"workload.{key}",
        lambda case: getattr(case.point, key) is not None and case.workload.phase not in GENERATION,
        lambda case: (
            f"belongs to prefill, decode and generate, not to {case.workload.phase}",
            "Leave it out." if _takes_images(case) else "Use sequence_length.",
        ),
    )


def _no_steps(case: ScenarioCase) -> tuple[str, str]:
    pipeline = case.traits.whole_pipeline
    hint = f"Its pipeline is the model {pipeline}." if pipeline else "Leave it out: a pass is one step."
    return f"{case.model.name} is not a diffusion pipeline", hint


def _batch_unit(case: ScenarioCase) -> Number:
    return micro_batch(case) * (case.point.data or 1)


def _batch_uneven(case: ScenarioCase) -> Any:
    whole = case.point.global_batch_size
    return False if case.workload.phase != "train" or whole is None else whole % _batch_unit(case) != 0


def _batches_that_divide(case: ScenarioCase) -> tuple[str, str]:
    whole, unit = case.point.global_batch_size, _batch_unit(case)
    shown = f"micro batch x data = {micro_batch(case)} x {case.point.data or 1} = {unit}"
    return f"{whole} is not a multiple of {shown}", f"Nearest: {nearest(whole, unit)}."


def _image(case: ScenarioCase) -> Number:
    return case.traits.image_size if case.point.image_size is None else case.point.image_size


def _beyond_positions(case: ScenarioCase) -> Any:
    most, size = case.traits.position_grid, _image(case)
    if not _takes_images(case) or most is None or size is None or isinstance(size, tuple | list):
        return False
    return size > most * case.traits.position_pixels


def _positions(case: ScenarioCase) -> tuple[str, str]:
    most = case.traits.position_grid or 0
    message = f"{_image(case)} is beyond the {most} x {most} positions of {case.model.name}"
    return message, f"The largest image is {most * case.traits.position_pixels}."


def _reads_prompts(case: ScenarioCase) -> bool:
    """Tell whether a pass over prompts is asked of a model that has nothing else to read."""
    return case.workload.phase in ("prefill", "generate") and not _takes_images(case)


def _empty_prompt(case: ScenarioCase, *, encodes: bool) -> Any:
    prompt = case.point.prompt_length
    return _reads_prompts(case) and case.model.encodes is encodes and prompt is not None and prompt == 0


def _two_prompts(case: ScenarioCase) -> Any:
    prompt, length = case.point.prompt_length, case.point.sequence_length
    if not _reads_prompts(case) or case.model.encodes or prompt is None or length is None:
        return False
    return prompt != length


#: Words that the phase or the family has no use for: refused instead of ignored.
FOREIGN: Final[tuple[Rule[ScenarioCase], ...]] = (
    Rule(
        "phase-of-family",
        "workload.phase",
        lambda case: case.workload.phase in GENERATION and not case.model.generates,
        _phase_unknown,
    ),
    *map(_of_serving, SERVING),
    Rule(
        "global-batch-in-inference",
        "workload.global_batch_size",
        lambda case: case.workload.phase != "train" and case.point.global_batch_size is not None,
        lambda case: (f"belongs to phase train, not {case.workload.phase}", "Use batch_size."),
    ),
    *map(_of_generation, _LENGTHS),
    Rule(
        "sequence-of-images",
        "workload.sequence_length",
        lambda case: _takes_images(case) and case.point.sequence_length is not None,
        lambda case: (f"{case.model.name} takes images", "Use image_size."),
    ),
    Rule(
        "image-of-several-sides",
        "workload.image_size",
        lambda case: bool(case.traits.image_extents) and case.point.image_size is not None,
        lambda case: (
            f"images of {case.model.name} have several sides",
            f"Change {', '.join(f'model.sizes.{name}' for name in case.traits.image_extents)}.",
        ),
    ),
    Rule(
        "image-of-tokens",
        "workload.image_size",
        lambda case: not _takes_images(case) and case.point.image_size is not None,
        lambda case: (f"{case.model.name} takes no images", "Use sequence_length."),
    ),
    Rule(
        "steps-without-pipeline",
        "workload.num_inference_steps",
        lambda case: case.point.num_inference_steps is not None and case.traits.denoising_steps is None,
        _no_steps,
    ),
    Rule(
        "phase-of-networks",
        "workload.phase",
        lambda case: case.traits.denoising_steps is not None and case.workload.phase != "forward",
        lambda case: (
            f"{case.model.name} is a pipeline of networks and does not {case.workload.phase}",
            "Use forward.",
        ),
    ),
    Rule(
        "target-of-family",
        "workload.target_length",
        lambda case: case.point.target_length is not None and not case.model.encodes,
        lambda case: (f"{case.model.name} is no encoder-decoder", ""),
    ),
    Rule(
        "packing-of-family",
        "workload.packed_length",
        lambda case: case.workload.packed_length is not None and not case.model.packs_samples,
        lambda case: (f"samples of {named(case.model)} are not packed into sequences in this version", "Leave it out."),
    ),
    Rule(
        "packing-in-inference",
        "workload.packed_length",
        lambda case: case.workload.packed_length is not None and case.workload.phase != "train",
        lambda case: (f"belongs to phase train, not {case.workload.phase}", "Leave it out."),
    ),
    Rule(
        "target-in-generation",
        "workload.target_length",
        lambda case: case.point.target_length is not None and case.workload.phase in GENERATION,
        lambda case: (
            f"belongs to train and forward, not to {case.workload.phase}",
            "The decoder starts with prompt_length tokens and adds output_length.",
        ),
    ),
)

SIZES: Final[tuple[Rule[ScenarioCase], ...]] = (
    *FOREIGN,
    Rule("global-batch-multiple", "workload.global_batch_size", _batch_uneven, _batches_that_divide),
    Rule(
        "packed-beyond-sequence",
        "workload.packed_length",
        lambda case: (case.workload.packed_length or 0.0) > (case.point.sequence_length or math.inf),
        lambda case: (
            f"samples of {case.workload.packed_length:g} tokens do not fit into sequences of {case.point.sequence_length}",
            f"At most {case.point.sequence_length}.",
        ),
    ),
    Rule("image-beyond-positions", "workload.image_size", _beyond_positions, _positions),
    Rule(
        "sequence-in-decode",
        "workload.sequence_length",
        lambda case: (
            case.workload.phase == "decode" and case.point.sequence_length is not None and not case.model.encodes
        ),
        lambda _: ("decode has a context_length and an output_length", ""),
    ),
    Rule(
        "empty-prompt",
        "workload.prompt_length",
        lambda case: _empty_prompt(case, encodes=False),
        lambda case: (
            f"0 tokens; {case.workload.phase} reads at least one",
            "For steps from an empty context: phase decode, output_length: N.",
        ),
    ),
    Rule(
        "two-prompts",
        "workload.sequence_length",
        _two_prompts,
        lambda case: (
            f"{case.point.sequence_length} beside prompt_length {case.point.prompt_length}: {case.workload.phase} has one prompt",
            "Give prompt_length alone, and what is added as output_length.",
        ),
    ),
    Rule(
        "empty-decoder-prompt",
        "workload.prompt_length",
        lambda case: _empty_prompt(case, encodes=True),
        lambda case: ("0 tokens; a decoder starts from one", f"Leave it out: {case.traits.target_start}."),
    ),
)
