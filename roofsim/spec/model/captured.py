"""Describe programs that were captured or exported elsewhere: the file that holds one, and what may be asked of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar, Final, Literal

from roofsim.errors import did_you_mean
from roofsim.schema.base import Field
from roofsim.spec.model.base import Count, ModelSpec, Size, Wrong
from roofsim.spec.model.module_plan import ModulePlan
from roofsim.spec.model.said import Said
from roofsim.spec.model.traits import Traits

#: Forms of programs that one engine runs -> that engine.
_ENGINES: Final = {"stablehlo": "jax"}


class CapturedProgram(ModelSpec):
    """What captured programs share. The reader of the file writes these fields; `costs` and `parallelize` are for people."""

    structural: ClassVar[frozenset[str]] = frozenset({"stacks", "parallelize", "ranks"})
    splits_tensor: ClassVar[Any] = Said(True, lambda model: bool(model.parallelize.tensor) or model.ranks > 1)
    stacked: ClassVar[Any] = Said(True, lambda model: bool(model.parallelize.pipeline))

    file: str = Field(description="The file that holds the program.")
    digest: str = Field(description="First digits of the SHA-256 of that file.")
    form: str = Field(
        default="capture", description="What wrote the file: capture, or the form that it was exported in."
    )
    dims: dict[str, Size] = Field(
        default={}, description="Sizes that an exported file leaves open, by name: past_sequence_length -> 128."
    )
    trains: bool = Field(description="Whether the program ends in a loss.")
    batches: tuple[Size, ...] = Field(min_length=1, description="Batch sizes at which it was captured.")
    lengths: tuple[Size, ...] = Field(default=(), description="Lengths, or sides of images, at which it was captured.")
    length_dims: tuple[str, ...] = Field(
        default=(), description="Sizes that an exported file leaves open, and that the length stands for."
    )
    parameters: Count = 0
    costs: dict[str, tuple[float, float]] = Field(
        default={}, description="FLOPs and bytes of a call of ops that roofsim has no rule for: my::op -> [2e9, 3e6]."
    )

    ranks: Size = Field(default=1, description="Ranks that the program was made for: it exchanges tensors among them.")
    stacks: dict[str, Size] = Field(default={}, description="Lists of modules that it calls, and how many each has.")
    parallelize: ModulePlan = Field(
        default=ModulePlan(),
        description="How its modules are split over ranks, in torch's words: {tensor: {model.layers.*.mlp.up_proj: "
        "ColwiseParallel, ...}, pipeline: model.layers}.",
    )

    def problems(self) -> list[Wrong]:
        """Return what is wrong with the points at which a pipeline is to cut."""
        plan, stack = self.parallelize, self.parallelize.stack()
        if not plan.pipeline:
            return []
        if stack not in self.stacks:
            hint = did_you_mean(stack, self.stacks) or "The program has no list of modules that a pipeline could cut."
            return [Wrong(("parallelize", "pipeline"), f"no list of modules {stack!r} is in {self.name}", hint)]
        if isinstance(plan.pipeline, str):
            return []
        number = self.stacks[stack]
        starts = [_item(point, stack) for point in plan.pipeline]
        if any(start is None or not 0 < start < number for start in starts):
            wrong = next(
                point for point, start in zip(plan.pipeline, starts, strict=True) if not start or start >= number
            )
            hint = f"Stages behind the first begin at {stack}.1 to {stack}.{number - 1}, all in one list."
            return [Wrong(("parallelize", "pipeline"), f"no stage can begin at {wrong!r}", hint)]
        if starts != sorted(set(starts), key=lambda start: start or 0):
            return [Wrong(("parallelize", "pipeline"), "stages begin in the order of their layers, each once")]
        return []

    def usual_engine(self) -> str | None:
        """Return the engine that the program was written for, where its form says so."""
        return _ENGINES.get(self.form)

    def stage_layers(self) -> tuple[int, ...] | None:
        """Return the layers of each stage, where the plan says at which modules they begin."""
        plan = self.parallelize
        if not plan.pipeline or isinstance(plan.pipeline, str):
            return None
        stack = plan.stack()
        starts = [0, *(_item(point, stack) or 0 for point in plan.pipeline), self.stacks[stack]]
        return tuple(stop - start for start, stop in pairwise(starts))

    def depth(self) -> int | None:
        """Return how many modules the list has that a pipeline cuts."""
        return self.stacks.get(self.parallelize.stack())

    def unsplit(self, degree: str) -> str:
        """Say what a plan would have to name."""
        if degree == "sequence":
            return "what a captured program splits by tokens stands in its plan (SequenceParallel), the flag"
        return "" if degree == "context" else "a captured program without a plan of its modules (--parallelize)"

    def usual_length(self) -> int | None:
        """Return the length where nobody says one: the one that is fixed by name, or the last that it was captured at."""
        fixed = next((self.dims[name] for name in self.length_dims if name in self.dims), None)
        return fixed if fixed is not None else self.lengths[-1] if self.lengths else None

    def no_training(self) -> Wrong | None:
        """Say why the program cannot be trained; None: it ends in a loss."""
        if self.trains:
            return None
        if self.form == "capture":
            return Wrong(
                (),
                f"{self.name} was captured without a loss: there is nothing to train on",
                "Ask for --phase forward, or capture it with a step() that returns the loss.",
            )
        return Wrong(
            (),
            f"{self.name} was exported ({self.form}) without a loss: its graph is a forward pass",
            "Ask for --phase forward, or capture the module with its training step (`roofsim capture`).",
        )


class CapturedModel(CapturedProgram):
    """A captured program over sequences of tokens."""

    sample_unit: ClassVar[str] = "tokens"

    family: Literal["captured"] = "captured"

    def traits(self) -> Traits:
        """Return the numbers that general code asks for."""
        return Traits(longest_sequence=self.usual_length(), layers=self.depth(), program_ranks=self.ranks)


class CapturedImages(CapturedProgram):
    """A captured program over images."""

    sample_unit: ClassVar[str] = "images"

    family: Literal["captured-images"] = "captured-images"

    def traits(self) -> Traits:
        """Return the numbers that general code asks for."""
        return Traits(image_size=self.usual_length(), layers=self.depth(), program_ranks=self.ranks)


class CapturedSamples(CapturedProgram):
    """A captured program over samples of one form."""

    sample_unit: ClassVar[str] = "samples"

    family: Literal["captured-samples"] = "captured-samples"

    def traits(self) -> Traits:
        """Return the numbers that general code asks for."""
        return Traits(layers=self.depth(), program_ranks=self.ranks)


def _item(point: str, stack: str) -> int | None:
    """Return the place of a module in a list; None: it is no item of it."""
    outer, _, place = point.rpartition(".")
    return int(place) if outer == stack and place.isdecimal() and len(place) < 9 else None
