"""Write out the sizes of a batch: which words a phase and a family use, and their defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.numeric import maximum, minimum, real
from roofsim.records import replace
from roofsim.spec.rules.sizes import SIZES, micro_batch
from roofsim.spec.scenario.adapter import Adapter
from roofsim.spec.scenario.workload import Workload

if TYPE_CHECKING:
    from roofsim.spec.rules.rule import Checks, ScenarioCase
    from roofsim.spec.scenario.point import Number, Point

#: Tokens of a sequence where nobody says how many, and the model takes as many: what people train and serve with, not the most
#: that a model could take, which is up to a million.
DEFAULT_LENGTH: Final = 4096
#: Tokens that a request generates where nobody says how many, and the model has room for them.
DEFAULT_OUTPUT: Final = 128
#: What only training has; elsewhere another value than the default changes nothing, and is said.
_OF_TRAINING: Final = ("optimizer", "weight_average", "recompute")


def complete_workload(case: ScenarioCase, checks: Checks) -> tuple[Point, Workload, list[str], list[str]]:
    """Return the numbers and the words of a workload with every size written out, what was assumed, and warnings.

    Raises
    ------
    SpecError
        Sizes that the phase or the family does not use, or that do not divide.
    """
    checks.hold(SIZES, case)
    given, point, checker = case.workload, case.point, _DefaultSizes(case, checks)
    checker.name_idle()
    batch = micro_batch(case)
    if point.micro_batch_size is None and point.batch_size is None:
        checker.note("{}: 1", "micro_batch_size" if given.phase in ("train", "forward") else "batch_size")
    update: dict[str, Number] = {"micro_batch_size": batch, "batch_size": batch}
    if given.phase == "train":
        update["global_batch_size"] = checker.global_batch(batch, point.data or 1)
        for key, note in case.model.training_defaults().items():
            if not checks.document.states("model", key):
                checker.note("{}: {}", key, note)
    update |= checker.lengths()
    words = (
        given.model_copy(update={"adapter": Adapter(kind=given.adapter)}) if isinstance(given.adapter, str) else given
    )
    return replace(point, **update), words, checker.notes, checker.warnings


class _DefaultSizes:
    def __init__(self, case: ScenarioCase, checks: Checks) -> None:
        self.given = case.point
        self.words = case.workload
        self.model = case.model
        self.document = checks.document
        self.quiet = checks.quiet
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.images = case.model.sample_unit == "images"
        self.traits = case.traits

    def note(self, text: str, *values: Any) -> None:
        """Say what was assumed, unless nobody asks."""
        if not self.quiet:
            self.notes.append(text.format(*values))

    def warn_beyond(self, length: Number, longest: Number | None, what: str) -> None:
        """Warn of more tokens than a model has positions for; `what` is said with both numbers."""
        if not self.quiet and longest is not None and length > longest:
            self.warnings.append(what.format(length, longest))

    def name_idle(self) -> None:
        """Warn of what the scenario states and the phase has no use for; scripts pass such words to every phase."""
        if self.quiet:
            return
        given, words, phase = self.given, self.words, self.words.phase
        idle = [
            name
            for name in _OF_TRAINING
            if phase != "train" and getattr(words, name) != Workload.model_fields[name].default
        ]
        if phase == "prefill":
            # One token is what a prefill gives.
            idle += [
                name
                for name, usual in (("output_length", 1), ("context_length", 0))
                if getattr(given, name) not in (None, usual)
            ]
        self.warnings += [f"workload.{name} has no effect in phase {phase}" for name in idle]
        if phase == "generate" and given.context_length:
            self.warnings.append(
                f"the pass over the prompts is priced without attention to the {given.context_length} tokens of "
                "workload.context_length; decode steps see them"
            )

    def global_batch(self, micro: Number, data: Number) -> Number:
        """Return sequences per optimizer step."""
        whole = self.given.global_batch_size
        if whole is None:
            whole = micro * data
            self.note("global_batch_size: {}", whole)
        return whole

    def lengths(self) -> dict[str, Any]:
        """Return the lengths that the phase uses."""
        phase = self.words.phase
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
        return {"image_size": size} | self._steps()

    def _own(self, key: str, value: Any) -> None:
        """Note a size of the model's own, unless the scenario states that in its model."""
        if not self.document.states("model", key):
            self.note("{}: {}, the model's own", key, value)

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
        else:
            self.warn_beyond(length, longest, "sequence_length {} is beyond the model's max_sequence_length {}")
        return {"sequence_length": length} | self._target()

    def _default_length(
        self, key: str, longest: Number | None, *, written: Number = 0, takes: str = "the model"
    ) -> Number:
        """Return the length where nobody states one: the smaller of `DEFAULT_LENGTH` and what the model has room for.

        `written`: tokens that come behind it and need room as well.
        """
        room = DEFAULT_LENGTH if longest is None else _most(longest - written, 1)
        length = _least(DEFAULT_LENGTH, room)
        if self.quiet:
            return length
        if longest is None:
            why = "the default length"
        elif length == longest:
            why = f"all that {takes} takes"
        else:
            why = f"the default length; {takes} takes up to {longest}"
        self.note("{}: {}, {}", key, length, why)
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
            if context is None and prompt is None and output is None:
                context = self._default_length("context_length", self._longest(encodes=encodes), written=1)
            if context is None or prompt is None or context == 0 or prompt == 0:  # else one behind the other
                prompt, context = 0, (0 if context is None else context) + (0 if prompt is None else prompt)
            result = {"prompt_length": prompt, "context_length": context, "output_length": output or 1}
        else:
            if phase == "generate" and output is None:
                output = self._default_output(prompt or given.sequence_length or 0, encodes=encodes)
            prompt = self._prefix() if encodes else self._prompt(phase, output or 0, context or 0)
            result = {"prompt_length": prompt, "context_length": context or 0, "output_length": output or 1}
        self._check_longest(result, output or 0, encodes=encodes)
        return result | source

    def _check_longest(self, lengths: dict[str, Any], output: Number, *, encodes: bool) -> None:
        """Warn of more tokens than the model, or the decoder of an encoder-decoder, has positions for."""
        whole = lengths["context_length"] + lengths["prompt_length"]
        whole = whole + (output if self.words.phase != "prefill" else 0)
        key = "max_target_length" if encodes else "max_sequence_length"
        self.warn_beyond(whole, self._longest(encodes=encodes), f"{{}} tokens are beyond the model's {key} {{}}")

    def _longest(self, *, encodes: bool) -> Number | None:
        """Return the tokens that the model, or the decoder of an encoder-decoder, has positions for."""
        return self.traits.longest_target if encodes else self.traits.longest_sequence

    def _default_output(self, read: Number, *, encodes: bool) -> Number:
        """Return the tokens that a request generates where nobody says: `DEFAULT_OUTPUT`, or what is left for them."""
        longest = self._longest(encodes=encodes)
        room = DEFAULT_OUTPUT if longest is None else longest - read if read else longest // 2
        output = _least(DEFAULT_OUTPUT, room) if room > 0 else DEFAULT_OUTPUT
        self.note("output_length: {}, the default length", output)
        return output

    def _prompt(self, phase: str, output: Number, context: Number) -> Number:
        """Return the length of a decoder's prompt, which `sequence_length` may also state."""
        prompt, length = self.given.prompt_length, self.given.sequence_length
        if prompt is None and length is None:
            written = (output if phase == "generate" else 0) + context
            return self._default_length("prompt_length", self._longest(encodes=False), written=written)
        return length if prompt is None else prompt

    def _source(self) -> dict[str, Any]:
        """Return what the encoder of an encoder-decoder reads, in every phase."""
        own, length = self.traits.longest_sequence, self.given.sequence_length
        if length is None and own is not None:
            length = self._default_length("sequence_length", own, takes="the encoder")
        elif length is not None:
            self.warn_beyond(length, own, "sequence_length {} is beyond the encoder's max_sequence_length {}")
        return {"sequence_length": length}

    def _prefix(self) -> Number:
        """Return the tokens that the decoder of an encoder-decoder starts from."""
        prompt = self.given.prompt_length
        own = self.traits.target_start
        if prompt is None:
            self.note("prompt_length: {} at the decoder's start, the model's own", own)
        return own if prompt is None else prompt


def _least(a: Number, b: Number) -> Number:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else minimum(real(a), real(b))


def _most(a: Number, b: Number) -> Number:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else maximum(real(a), real(b))
