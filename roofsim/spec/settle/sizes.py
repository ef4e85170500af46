"""Write out the sizes of a batch: which words a phase and a family use, their defaults, what must divide what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Problem, SpecError
from roofsim.spec.scenario.adapter import Adapter
from roofsim.spec.scenario.workload import SERVING, Workload

if TYPE_CHECKING:
    from roofsim.spec.model.base import ModelSpec
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.workload import Parallel

GENERATION = ("prefill", "decode", "generate")
#: Tokens of a sequence where nobody says how many, and the model takes as many: what people train and serve with, not the most
#: that a model could take, which is up to a million.
DEFAULT_LENGTH: Final = 4096
#: Tokens that a request generates where nobody says how many, and the model has room for them.
DEFAULT_OUTPUT: Final = 128
#: What only training has; elsewhere another value than the default changes nothing, and is said.
_OF_TRAINING: Final = ("optimizer", "recompute")


def complete_workload(
    given: Workload, parallel: Parallel, model: ModelSpec, document: Document
) -> tuple[Workload, list[str], list[str]]:
    """Return the workload with every size written out, what was assumed, and warnings.

    Raises
    ------
    SpecError
        Sizes that the phase or the family does not use, or that do not divide.
    """
    checker = _DefaultSizes(given, model, document)
    checker.refuse_foreign()
    checker.name_idle()
    update: dict[str, Any] = {}
    batch = given.micro_batch_size or given.batch_size
    if batch is None:
        batch = 1
        checker.notes.append("micro_batch_size: 1" if given.phase in ("train", "forward") else "batch_size: 1")
    update |= {"micro_batch_size": batch, "batch_size": batch}
    if isinstance(given.adapter, str):
        update["adapter"] = Adapter(kind=given.adapter)
    if given.phase == "train":
        update["global_batch_size"] = checker.global_batch(batch, parallel.data or 1)
        unstated = {key: note for key, note in model.training_defaults().items() if not document.states("model", key)}
        checker.notes += [f"{key}: {note}" for key, note in unstated.items()]
    update |= checker.lengths()
    return given.model_copy(update=update), checker.notes, checker.warnings


def named(model: ModelSpec) -> str:
    """Return a model's family with its article.

    >>> from roofsim.spec.model.base import ModelSpec
    >>> named(ModelSpec(family="encoder-decoder")), named(ModelSpec(family="unet"))
    ('an encoder-decoder', 'a unet')
    """
    return f"{'an' if model.family[0] in 'aeio' else 'a'} {model.family}"


class _DefaultSizes:
    def __init__(self, given: Workload, model: ModelSpec, document: Document) -> None:
        self.given = given
        self.model = model
        self.document = document
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.images = model.sample_unit == "images"
        self.traits = model.traits()

    def fail(self, key: str, message: str, hint: str = "") -> SpecError:
        return SpecError(Problem(message, self.document.place(("workload", key)), f"workload.{key}", hint))

    def refuse_foreign(self) -> None:
        """Refuse words that this phase or family has no use for, instead of ignoring them."""
        given, phase = self.given, self.given.phase
        if phase in GENERATION and not self.model.generates:
            message = f"{phase} is for models that generate tokens; {self.model.name} is {named(self.model)}"
            raise self.fail("phase", message, self._other_phases())
        for key in SERVING:
            if getattr(given, key) is not None:
                raise self.fail(key, "describes a running server", "`roofsim serve` answers it; here use batch_size.")
        if phase != "train" and given.global_batch_size is not None:
            raise self.fail("global_batch_size", f"belongs to phase train, not {phase}", "Use batch_size.")
        generation = ("prompt_length", "output_length", "context_length")
        for key in generation:
            if getattr(given, key) is not None and phase not in GENERATION:
                hint = "Leave it out." if self.images else "Use sequence_length."
                raise self.fail(key, f"belongs to prefill, decode and generate, not to {phase}", hint)
        if self.images and given.sequence_length is not None:
            raise self.fail("sequence_length", f"{self.model.name} takes images", "Use image_size.")
        if not self.images and given.image_size is not None:
            raise self.fail("image_size", f"{self.model.name} takes no images", "Use sequence_length.")
        self._refuse_steps()
        self._refuse_targets()

    def _other_phases(self) -> str:
        """Return the phases of a model that generates no tokens, and what makes images where it is a part of that."""
        if self.model.networks:
            return "Use forward (or generate): a pipeline of networks makes images, and is not trained as a whole."
        pipeline = self.traits.whole_pipeline
        whole = f" Whole images, many steps each: the model {pipeline}, phase forward." if pipeline else ""
        return f"Use forward or train.{whole}"

    def _refuse_targets(self) -> None:
        """Refuse lengths of a decoder that the model or the phase has not."""
        given, phase = self.given, self.given.phase
        if given.target_length is not None and not self.model.encodes:
            raise self.fail("target_length", f"{self.model.name} is no encoder-decoder")
        if given.target_length is not None and phase in GENERATION:
            hint = "The decoder starts with prompt_length tokens and adds output_length."
            raise self.fail("target_length", f"belongs to train and forward, not to {phase}", hint)

    def name_idle(self) -> None:
        """Warn of what the scenario states and the phase has no use for; scripts pass such words to every phase."""
        given, phase = self.given, self.given.phase
        idle = [
            name
            for name in _OF_TRAINING
            if phase != "train" and getattr(given, name) != Workload.model_fields[name].default
        ]
        if phase == "prefill":
            # One token is what a prefill gives.
            idle += [name for name, usual in (("output_length", 1), ("context_length", 0))
                     if getattr(given, name) not in (None, usual)]  # fmt: skip
        self.warnings += [f"workload.{name} has no effect in phase {phase}" for name in idle]
        if phase == "generate" and given.context_length:
            self.warnings.append(
                f"the pass over the prompts is priced without attention to the {given.context_length} tokens of "
                "workload.context_length; decode steps see them"
            )

    def _refuse_steps(self) -> None:
        """Refuse steps of what is not a diffusion pipeline, and phases that such a pipeline has not."""
        steps, phase = self.traits.denoising_steps, self.given.phase
        if self.given.num_inference_steps is not None and steps is None:
            pipeline = self.traits.whole_pipeline
            hint = f"Its pipeline is the model {pipeline}." if pipeline else "Leave it out: a pass is one step."
            raise self.fail("num_inference_steps", f"{self.model.name} is not a diffusion pipeline", hint)
        if steps is not None and phase != "forward":
            raise self.fail(
                "phase", f"{self.model.name} is a pipeline of networks and does not {phase}", "Use forward."
            )

    def global_batch(self, micro: int, data: int) -> int:
        """Return sequences per optimizer step; it must be a multiple of micro batch x data."""
        unit = micro * data
        whole = self.given.global_batch_size
        if whole is None:
            self.notes.append(f"global_batch_size: {unit}")
            return unit
        if whole % unit:
            below, above = whole // unit * unit, -(-whole // unit) * unit
            nearest = " or ".join(str(value) for value in (below, above) if value)
            raise self.fail(
                "global_batch_size", f"{whole} is not a multiple of micro batch x data = {micro} x {data} = {unit}",
                f"Nearest: {nearest}.",
            )  # fmt: skip
        return whole

    def lengths(self) -> dict[str, Any]:
        """Return the lengths that the phase uses."""
        phase = self.given.phase
        if self.images:
            return self._image()
        if phase in ("train", "forward"):
            return self._sequence()
        return self._generation(phase)

    def _image(self) -> dict[str, Any]:
        own = self.traits.image_size
        size = self.given.image_size
        if size is None and own is not None:
            self._own("image_size", own)
            size = own
        self._refuse_positions(size)
        return {"image_size": size} | self._steps()

    def _own(self, key: str, value: Any) -> None:
        """Note a size of the model's own, unless the scenario states that in its model."""
        if not self.document.states("model", key):
            self.notes.append(f"{key}: {value}, the model's own")

    def _refuse_positions(self, size: Any) -> None:
        """Refuse images with more patches along a side than a model has stored positions for."""
        most = self.traits.position_grid
        if most is None or not isinstance(size, int):
            return
        largest = most * self.traits.position_pixels
        if size > largest:
            raise self.fail(
                "image_size", f"{size} is beyond the {most} x {most} positions of {self.model.name}",
                f"The largest image is {largest}.",
            )  # fmt: skip

    def _steps(self) -> dict[str, Any]:
        own = self.traits.denoising_steps
        if own is not None and self.given.num_inference_steps is None:
            self._own("num_inference_steps", own)
        return {"num_inference_steps": self.given.num_inference_steps or own}

    def _sequence(self) -> dict[str, Any]:
        longest = self.traits.longest_sequence
        length = self.given.sequence_length
        if length is None:
            if longest is None:
                return {}
            length = self._default_length("sequence_length", longest)
        elif longest is not None and length > longest:
            self.warnings.append(f"sequence_length {length} is beyond the model's max_sequence_length {longest}")
        return {"sequence_length": length} | self._target()

    def _default_length(self, key: str, longest: int | None, *, written: int = 0, takes: str = "the model") -> int:
        """Return the length where nobody states one: the smaller of `DEFAULT_LENGTH` and what the model has room for.

        `written`: tokens that come behind it and need room as well.
        """
        room = DEFAULT_LENGTH if longest is None else max(longest - written, 1)
        length = min(DEFAULT_LENGTH, room)
        if longest is None:
            why = "the default length"
        elif length == longest:
            why = f"all that {takes} takes"
        else:
            why = f"the default length; {takes} takes up to {longest}"
        self.notes.append(f"{key}: {length}, {why}")
        return length

    def _target(self) -> dict[str, Any]:
        if not self.model.encodes:
            return {}
        if self.given.target_length is None:
            longest = self.traits.longest_target
            return {"target_length": self._default_length("target_length", longest, takes="the decoder")}
        return {"target_length": self.given.target_length}

    def _generation(self, phase: str) -> dict[str, Any]:
        given = self.given
        prompt, context, output = given.prompt_length, given.context_length, given.output_length
        encodes = self.model.encodes
        source = self._source() if encodes else {}
        if phase == "decode":
            if given.sequence_length is not None and not encodes:
                raise self.fail("sequence_length", "decode has a context_length and an output_length")
            if context is None and prompt is None and output is None:
                context = self._default_length("context_length", self._longest(encodes=encodes), written=1)
            if not (context and prompt):  # one behind the other where both are given
                prompt, context = 0, (context or 0) + (prompt or 0)
            result = {"prompt_length": prompt, "context_length": context, "output_length": output or 1}
        else:
            if phase == "generate" and output is None:
                output = self._default_output(prompt or given.sequence_length or 0, encodes=encodes)
            prompt = self._prefix() if encodes else self._prompt(phase, output or 0, context or 0)
            result = {"prompt_length": prompt, "context_length": context or 0, "output_length": output or 1}
        self._check_longest(result, output or 0, encodes=encodes)
        return result | source

    def _check_longest(self, lengths: dict[str, Any], output: int, *, encodes: bool) -> None:
        """Warn of more tokens than the model, or the decoder of an encoder-decoder, has positions for."""
        whole = lengths["context_length"] + lengths["prompt_length"]
        whole += output if self.given.phase != "prefill" else 0
        key = "max_target_length" if encodes else "max_sequence_length"
        longest = self._longest(encodes=encodes)
        if longest is not None and whole > longest:
            self.warnings.append(f"{whole} tokens are beyond the model's {key} {longest}")

    def _longest(self, *, encodes: bool) -> int | None:
        """Return the tokens that the model, or the decoder of an encoder-decoder, has positions for."""
        longest: int | None = self.traits.longest_target if encodes else self.traits.longest_sequence
        return longest

    def _default_output(self, read: int, *, encodes: bool) -> int:
        """Return the tokens that a request generates where nobody says: `DEFAULT_OUTPUT`, or what is left for them."""
        longest = self._longest(encodes=encodes)
        room = DEFAULT_OUTPUT if longest is None else longest - read if read else longest // 2
        output = min(DEFAULT_OUTPUT, room) if room > 0 else DEFAULT_OUTPUT
        self.notes.append(f"output_length: {output}, the default length")
        return output

    def _prompt(self, phase: str, output: int, context: int) -> int:
        """Return the length of a decoder's prompt, which `sequence_length` may also state."""
        prompt, length = self.given.prompt_length, self.given.sequence_length
        if prompt == 0:
            message = f"0 tokens; {phase} reads at least one"
            raise self.fail(
                "prompt_length", message, "For steps from an empty context: phase decode, output_length: N."
            )
        if prompt is None and length is None:
            written = (output if phase == "generate" else 0) + context
            return self._default_length("prompt_length", self._longest(encodes=False), written=written)
        if prompt is not None and length is not None and prompt != length:
            message = f"{length} beside prompt_length {prompt}: {phase} has one prompt"
            raise self.fail("sequence_length", message, "Give prompt_length alone, and what is added as output_length.")
        return prompt or length or 1

    def _source(self) -> dict[str, Any]:
        """Return what the encoder of an encoder-decoder reads, in every phase."""
        own, length = self.traits.longest_sequence, self.given.sequence_length
        if length is None and own is not None:
            length = self._default_length("sequence_length", own, takes="the encoder")
        elif own is not None and length > own:
            self.warnings.append(f"sequence_length {length} is beyond the encoder's max_sequence_length {own}")
        return {"sequence_length": length}

    def _prefix(self) -> int:
        """Return the tokens that the decoder of an encoder-decoder starts from."""
        prompt: int | None = self.given.prompt_length
        own = self.traits.target_start
        if prompt == 0:
            raise self.fail("prompt_length", "0 tokens; a decoder starts from one", f"Leave it out: {own}.")
        if prompt is None:
            self.notes.append(f"prompt_length: {own} at the decoder's start, the model's own")
        return prompt or own
