"""Hold the numbers of a scenario that layouts and batches are searched over, apart from its words: one record of reals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from roofsim.points import Points, number_at
from roofsim.records import dataclass, fields, is_dataclass, replace

if TYPE_CHECKING:
    from roofsim.schema.base import BaseModel
    from roofsim.spec.scenario.workload import Parallel, Workload

T = TypeVar("T")
M = TypeVar("M", bound="BaseModel")

#: A whole number of one scenario, or `Points` of several; None where nobody states it.
Number = Any

#: Fields of a `Point` that are keys of the sections `parallel` and `workload`.
DEGREES: Final = (
    "tensor", "pipeline", "virtual_stages", "data", "context", "context_heads", "expert", "expert_tensor",
    "expert_imbalance", "redundant_experts", "expert_capacity",
)  # fmt: skip
SIZES: Final = (
    "micro_batch_size", "batch_size", "global_batch_size", "sequence_length", "image_size", "num_inference_steps",
    "target_length", "prompt_length", "output_length", "context_length",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Point:
    """The numbers of a layout and of a batch: those of one scenario, or `Points` of several that have the same words.

    Fields are named as the keys of the sections `parallel` and `workload`; `gpus` is that of `hardware`. None: not stated.
    """

    gpus: Number = None
    tensor: Number = 1
    pipeline: Number = 1
    virtual_stages: Number = 1
    data: Number = None
    context: Number = 1
    context_heads: Number = None
    expert: Number = 1
    expert_tensor: Number = None
    expert_imbalance: Number = 1.0
    redundant_experts: Number = 0
    expert_capacity: Number = None
    micro_batch_size: Number = None
    batch_size: Number = None
    global_batch_size: Number = None
    sequence_length: Number = None
    image_size: Number = None
    num_inference_steps: Number = None
    target_length: Number = None
    prompt_length: Number = None
    output_length: Number = None
    context_length: Number = None

    @classmethod
    def of(cls, parallel: Parallel, workload: Workload, gpus: Number) -> Self:
        """Return the numbers of two sections, and how many GPUs there are."""
        degrees = {name: getattr(parallel, name) for name in DEGREES}
        return cls(gpus=gpus, **degrees, **{name: getattr(workload, name) for name in SIZES})

    def layout(self, words: Parallel) -> Parallel:
        """Return a layout with these numbers and the words of another."""
        return _with(words, {name: getattr(self, name) for name in DEGREES})

    def batch(self, words: Workload) -> Workload:
        """Return a workload with these numbers and the words of another."""
        return _with(words, {name: getattr(self, name) for name in SIZES})

    @property
    def groups(self) -> Number:
        """Ranks that one replica takes: tensor x pipeline x context."""
        return self.tensor * self.pipeline * self.context

    @property
    def replicas(self) -> Number:
        """Ranks that hold the same parameters."""
        return (1 if self.data is None else self.data) * self.context

    @property
    def micro_batches(self) -> Number:
        """Micro batches of a training step, rounded down."""
        each = (self.micro_batch_size or 1) * (self.data or 1)
        return (self.global_batch_size or each) // each


def _with(section: M, numbers: dict[str, Number]) -> M:
    changed = {name: value for name, value in numbers.items() if value is not getattr(section, name)}
    return section.model_copy(update=changed) if changed else section


def at_place(record: T, place: int) -> T:
    """Return a record with the numbers of one point where it has those of several: whole ones as whole numbers.

    >>> from roofsim.points import points
    >>> at_place(Point(tensor=points([1.0, 4.0])), 1).tensor
    4
    """
    if not is_dataclass(type(record)):
        return record
    changed = {}
    for field in fields(record):  # type: ignore[arg-type]
        value = getattr(record, field.name)
        own = _at(value, place)
        if own is not value:
            changed[field.name] = own
    return replace(record, **changed) if changed else record  # type: ignore[type-var]


def _at(value: Any, place: int) -> Any:
    if isinstance(value, Points):
        return number_at(value, place)
    if isinstance(value, tuple):
        own = tuple(_at(each, place) for each in value)
        return own if any(a is not b for a, b in zip(own, value, strict=True)) else value
    return at_place(value, place) if is_dataclass(type(value)) else value
