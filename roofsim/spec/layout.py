"""Check a parallel layout against the GPUs, the model and the batch, and say which ranks make up each group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Problem, SpecError
from roofsim.numeric import Real, maximum, minimum, real
from roofsim.spec.workload import ShardedOver

if TYPE_CHECKING:
    from roofsim.spec.families.base import ModelSpec
    from roofsim.spec.source import Document
    from roofsim.spec.workload import Parallel, Workload

#: Families whose layers this version splits over a tensor or context group.
SPLIT_FAMILIES: Final = ("decoder", "encoder")
#: Families whose layers are one stack, each handing one tensor to the next: what a pipeline can cut.
STACKS: Final = ("decoder", "encoder", "vit", "mixer", "mamba")
DEGREES: Final = ("tensor", "pipeline", "context", "data")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Degrees of parallelism; ranks are numbered tensor first, then context, data, pipeline (Megatron's order).

    Floats or arrays.
    """

    tensor: Real
    context: Real
    data: Real
    pipeline: Real
    expert: Real
    virtual_stages: Real
    sequence: bool
    shards: Real
    """Ranks among which one set of shards is spread: all replicas, or fewer with hybrid sharding."""

    @property
    def ranks(self) -> Real:
        """GPUs in all."""
        return self.tensor * self.context * self.data * self.pipeline

    @property
    def replicas(self) -> Real:
        """Ranks that hold the same parameters: context ranks share them as data ranks do."""
        return self.data * self.context

    @property
    def expert_replicas(self) -> Real:
        """Ranks that hold the same experts: whole experts are dealt out over tensor ranks too."""
        if type(self.expert) is float and self.expert == 1.0:
            return self.replicas
        return maximum(self.replicas * self.tensor / self.expert, 1.0)

    def stride(self, group: str) -> Real:
        """Return the distance between neighbouring ranks of a group."""
        strides: dict[str, Real] = {
            "tensor": 1.0,
            "expert": 1.0,
            "dispatch": self.tensor,  # the ranks of an expert group that hold other tokens
            "context": self.tensor,
            "data": self.tensor,  # gradients are summed over context ranks too, which stand beside them
            "replica": self.tensor * self.shards,
            "pipeline": self.tensor * self.context * self.data,
        }
        return strides[group]


def layout_of(parallel: Parallel) -> Layout:
    """Return the degrees as numbers."""
    replicas = real(1 if parallel.data is None else parallel.data) * real(parallel.context)
    hybrid = isinstance(parallel.sharding, ShardedOver)
    return Layout(
        shards=minimum(real(parallel.sharding.full), replicas) if hybrid else replicas,  # type: ignore[union-attr]
        tensor=real(parallel.tensor),
        context=real(parallel.context),
        data=real(1 if parallel.data is None else parallel.data),
        pipeline=real(parallel.pipeline),
        expert=real(parallel.expert),
        virtual_stages=real(parallel.virtual_stages),
        sequence=parallel.sequence,
    )


def complete_parallel(given: Parallel, gpus: int | None, document: Document) -> Parallel:
    """Return the layout with its data-parallel degree: what remains of the GPUs (None: 1).

    Raises
    ------
    SpecError
        When the degrees do not multiply to the GPUs; names what would.
    """
    inner = given.tensor * given.pipeline * given.context
    gpus = given.gpus if gpus is None else gpus
    shown = f"tensor {given.tensor} x pipeline {given.pipeline} x context {given.context}"
    if given.data is None:
        if gpus % inner:
            raise _problem(
                document, ("hardware", "gpus"), f"{gpus} GPUs are no multiple of {shown} = {inner}",
                f"Nearest: {_nearest(gpus, inner)} GPUs.",
            )  # fmt: skip
        given = given.model_copy(update={"data": gpus // inner})
    elif given.data * inner != gpus:
        raise _problem(
            document, ("hardware", "gpus"), f"{gpus} GPUs, but {shown} x data {given.data} = {given.data * inner}",
            f"Ask for {given.data * inner} GPUs, or leave data out.",
        )  # fmt: skip
    if given.virtual_stages > 1 and given.pipeline == 1:
        raise _problem(document, ("parallel", "virtual_stages"), "virtual stages need pipeline > 1", "Leave it out.")
    if given.virtual_stages > 1 and given.schedule not in ("1f1b", "interleaved"):
        message = f"schedule {given.schedule} has no virtual stages"
        raise _problem(document, ("parallel", "schedule"), message, "Use interleaved.")
    replicas = (given.data or 1) * given.context
    if isinstance(given.sharding, ShardedOver) and replicas % given.sharding.full:
        message = f"full sharding over {given.sharding.full} ranks does not divide data x context = {replicas}"
        raise _problem(document, ("parallel", "sharding"), message, f"Use one of {_divisors(replicas)}.")
    return given


def check_layout(parallel: Parallel, model: ModelSpec, workload: Workload, document: Document) -> None:
    """Refuse a layout that the model or the batch cannot be split by.

    Raises
    ------
    SpecError
        Names the degree, what it must divide, and the degrees that would.
    """
    if workload.phase != "train":
        _check_inference(parallel, workload, document)
    for name in ("tensor", "context"):
        if getattr(parallel, name) > 1 and model.family not in SPLIT_FAMILIES:
            raise _problem(
                document, ("parallel", name), f"{model.family} models are not split by {name} in this version",
                f"Families that are: {', '.join(SPLIT_FAMILIES)}. data and sharding work for all.",
            )  # fmt: skip
    whole = model.completed()
    if parallel.tensor > 1:
        _check_tensor(parallel.tensor, whole, document)
    if parallel.pipeline > 1:
        _check_pipeline(parallel, whole, document)
    if parallel.context > 1:
        prefills = workload.phase == "prefill"
        length = workload.prompt_length if prefills else workload.sequence_length
        _divides(document, "context", parallel.context, length, "prompt_length" if prefills else "sequence_length")
    if parallel.tensor > 1 and parallel.sequence:
        _check_sequence(parallel, workload, document)
    if parallel.expert > 1:
        _check_experts(parallel, whole, workload, document)


def _check_inference(parallel: Parallel, workload: Workload, document: Document) -> None:
    phase = workload.phase
    if parallel.virtual_stages > 1:
        message = f"virtual stages belong to training, not to phase {phase}"
        raise _problem(document, ("parallel", "virtual_stages"), message, "Leave it out.")
    if parallel.context > 1 and phase not in ("prefill", "forward"):
        message = f"context {parallel.context} in phase {phase}: new tokens are not split by context in this version"
        raise _problem(document, ("parallel", "context"), message, "tensor, pipeline, data and expert are.")
    if parallel.sharding not in (None, "none"):
        message = f"sharding belongs to training, not to phase {phase}"
        raise _problem(document, ("parallel", "sharding"), message, "Leave it out.")
    if parallel.sequence and phase in ("decode", "generate") and parallel.tensor > 1:
        message = f"sequence parallelism deals out the tokens of a sequence; phase {phase} adds one at a time"
        raise _problem(document, ("parallel", "sequence"), message, "Leave it out.")


def _check_tensor(tensor: int, model: Any, document: Document) -> None:
    _divides(document, "tensor", tensor, model.num_attention_heads, "num_attention_heads")
    heads = model.num_key_value_heads
    if heads is not None and heads % tensor and tensor % heads:
        message = f"tensor {tensor} neither divides the {heads} key-value heads nor is a multiple of them"
        raise _problem(document, ("parallel", "tensor"), message, f"Use one of {_divisors(heads)}.")


def _check_sequence(parallel: Parallel, workload: Workload, document: Document) -> None:
    length = workload.prompt_length if workload.phase == "prefill" else workload.sequence_length
    ranks = parallel.tensor * parallel.context
    if workload.phase in ("train", "forward", "prefill") and length and length % ranks:
        shown = f"tensor {parallel.tensor}" + (f" x context {parallel.context}" if parallel.context > 1 else "")
        message = f"sequence parallelism deals {length} tokens out to {shown} ranks, which does not come out even"
        raise _problem(
            document, ("parallel", "sequence"), message, f"Use a multiple of {ranks} tokens, or sequence: false."
        )


def _check_pipeline(parallel: Parallel, model: Any, document: Document) -> None:
    if model.family not in STACKS:
        message = f"{model.family} models have no single stack of layers that a pipeline could cut"
        hint = f"Families that do: {', '.join(STACKS)}. data and sharding work for all."
        raise _problem(document, ("parallel", "pipeline"), message, hint)
    layers = model.num_layers
    chunks = parallel.pipeline * parallel.virtual_stages
    if chunks > layers:
        what = f"{parallel.pipeline} x {parallel.virtual_stages} virtual" if parallel.virtual_stages > 1 else chunks
        message = f"{what} stages for {layers} layers: some would have none"
        raise _problem(document, ("parallel", "pipeline"), message, f"At most {layers}.")
    if parallel.virtual_stages > 1 and layers % chunks:
        message = (
            f"interleaved stages need layers ({layers}) that are a multiple of pipeline x virtual_stages = {chunks}"
        )
        raise _problem(document, ("parallel", "virtual_stages"), message, "Leave virtual_stages out.")


def _check_experts(parallel: Parallel, model: Any, workload: Workload, document: Document) -> None:
    experts = getattr(model, "num_experts", 0)
    if not experts:
        raise _problem(document, ("parallel", "expert"), "the model has no experts", "Leave it out.")
    _divides(document, "expert", parallel.expert, experts, "num_experts")
    serves = workload.phase != "train" and not parallel.sequence
    if parallel.tensor > 1 and not parallel.sequence and not serves:
        message = "experts dealt out beside tensor parallelism need sequence: true (each tensor rank has its tokens)"
        raise _problem(document, ("parallel", "expert"), message, "Set parallel.sequence.")
    ranks = parallel.tensor * parallel.context * (parallel.data or 1)
    if ranks % parallel.expert:
        message = f"expert {parallel.expert} does not divide tensor x context x data = {ranks}, the ranks of a stage"
        raise _problem(document, ("parallel", "expert"), message, f"Use one of {_divisors(ranks)}.")
    if serves and parallel.tensor % parallel.expert and parallel.expert % parallel.tensor:
        message = f"expert {parallel.expert} neither divides tensor {parallel.tensor} nor is a multiple of it"
        fits = [
            n for n in range(1, ranks + 1) if ranks % n == 0 and (parallel.tensor % n == 0 or n % parallel.tensor == 0)
        ]
        raise _problem(document, ("parallel", "expert"), message, f"Use one of {', '.join(map(str, fits[:12]))}.")


def _divides(document: Document, name: str, degree: int, size: int | None, what: str) -> None:
    if size is not None and size % degree:
        message = f"{name} {degree} does not divide {what} {size}"
        raise _problem(document, ("parallel", name), message, f"Use one of {_divisors(size)}.")


def _divisors(size: int) -> str:
    found = [n for n in range(1, min(size, 1024) + 1) if size % n == 0]
    return ", ".join(map(str, found[:12])) + (" ..." if len(found) > 12 else "")


def _nearest(gpus: int, unit: int) -> str:
    below, above = gpus // unit * unit, -(-gpus // unit) * unit
    return " or ".join(str(value) for value in (below, above) if value)


def _problem(document: Document, path: tuple[str, str], message: str, hint: str) -> SpecError:
    return SpecError(Problem(message, document.place(path), ".".join(path), hint))
