"""Check a parallel layout against the GPUs, the model and the batch, and say which ranks make up each group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.errors import Problem, SpecError, one_of
from roofsim.numeric import Real, maximum, minimum, real, where
from roofsim.records import dataclass
from roofsim.spec.model.registry import families_that
from roofsim.spec.scenario.schedules import load_schedule, takes, taking
from roofsim.spec.scenario.workload import ShardedOver

if TYPE_CHECKING:
    from roofsim.spec.model.base import ModelSpec
    from roofsim.spec.model.traits import Traits
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.schedules import ScheduleRules
    from roofsim.spec.scenario.workload import Parallel, Workload

DEGREES: Final = ("tensor", "pipeline", "context", "data")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Degrees of parallelism; ranks are numbered tensor first, then context, data, pipeline (Megatron's order).

    Floats or arrays.
    """

    tensor: Real
    context: Real
    context_heads: Real
    data: Real
    pipeline: Real
    expert: Real
    expert_tensor: Real
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
        """Ranks that hold the same part of the same experts: those dealt out stand on tensor ranks too."""
        return maximum(self.replicas * self.tensor / (self.expert * self.expert_tensor), 1.0)

    def stride(self, group: str) -> Real:
        """Return the distance between neighbouring ranks of a group; ``experts``: those that hold the same experts."""
        strides: dict[str, Real] = {
            "tensor": 1.0,
            "expert": self.expert_tensor,
            "expert_tensor": 1.0,
            "dispatch": self.tensor,  # the ranks of an expert group of inference that hold other tokens
            "context": self.tensor,
            "context_ring": self.tensor * self.context_heads,
            "statistics": self.tensor,
            "data": self.tensor,  # gradients are summed over context ranks too, which stand beside them
            "experts": self.expert * self.expert_tensor,
            "replica": self.tensor * self.shards,
            "pipeline": self.tensor * self.context * self.data,
        }
        return strides[group]


def _context_heads(parallel: Parallel) -> Real:
    """Return the context ranks that deal heads out: all, some, or each for itself."""
    if parallel.context_communication == "a2a":
        return parallel.context
    return parallel.context_heads or 1 if parallel.context_communication == "a2a+p2p" else 1


def expert_tensor_of(parallel: Parallel) -> Real:
    """Return how many ranks split each expert: stated, or those of tensor where experts are not dealt out."""
    if parallel.expert_tensor is not None:
        return parallel.expert_tensor
    dealt = real(parallel.expert)
    if isinstance(dealt, float):
        return parallel.tensor if dealt == 1.0 else 1
    return where(dealt > 1.0, 1.0, real(parallel.tensor))


def layout_of(parallel: Parallel) -> Layout:
    """Return the degrees as numbers."""
    replicas = real(1 if parallel.data is None else parallel.data) * real(parallel.context)
    hybrid = isinstance(parallel.sharding, ShardedOver)
    return Layout(
        shards=minimum(real(parallel.sharding.full), replicas) if hybrid else replicas,  # type: ignore[union-attr]
        tensor=real(parallel.tensor),
        context=real(parallel.context),
        context_heads=real(_context_heads(parallel)),
        data=real(1 if parallel.data is None else parallel.data),
        pipeline=real(parallel.pipeline),
        expert=real(parallel.expert),
        expert_tensor=real(expert_tensor_of(parallel)),
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
            raise problem(
                document, ("hardware", "gpus"), f"{gpus} GPUs are not a multiple of {shown} = {inner}",
                f"Nearest: {_nearest(gpus, inner)} GPUs.",
            )  # fmt: skip
        given = given.model_copy(update={"data": gpus // inner})
    elif given.data * inner != gpus:
        raise problem(
            document, ("hardware", "gpus"), f"{gpus} GPUs, but {shown} x data {given.data} = {given.data * inner}",
            f"Ask for {given.data * inner} GPUs, or leave data out.",
        )  # fmt: skip
    if given.virtual_stages > 1 and given.pipeline == 1:
        raise problem(document, ("parallel", "virtual_stages"), "virtual stages need pipeline > 1", "Leave it out.")
    if given.pipeline > 1 and not takes(load_schedule(given.schedule), given.virtual_stages):
        raise problem(document, ("parallel", "schedule"), *_chunks_not_taken(given))
    replicas = (given.data or 1) * given.context
    if isinstance(given.sharding, ShardedOver) and replicas % given.sharding.full:
        message = f"full sharding over {given.sharding.full} ranks does not divide data x context = {replicas}"
        raise problem(document, ("parallel", "sharding"), message, f"Use one of {divisors(replicas)}.")
    return given


def _chunks_not_taken(given: Parallel) -> tuple[str, str]:
    """Return what to say of chunks per stage that a schedule does not take, and what would run them."""
    least, most = load_schedule(given.schedule).virtual_stages
    others = taking(given.virtual_stages)
    hint = f"Use {one_of(others)}." if others else ""
    if most == 1:
        return f"schedule {given.schedule} has no virtual stages", hint
    if least == most:
        hint = f"Set virtual_stages: {least}."
    taken = f"{least}" if least == most else f"{least} to {most}" if most else f"at least {least}"
    return f"schedule {given.schedule} takes {taken} virtual stages; got {given.virtual_stages}", hint


def check_layout(parallel: Parallel, model: ModelSpec, workload: Workload, document: Document) -> None:
    """Refuse a layout that the model or the batch cannot be split by.

    Raises
    ------
    SpecError
        Names the degree, what it must divide, and the degrees that would.
    """
    if workload.phase != "train":
        _check_inference(parallel, workload, document)
    for name, degree, do in (
        ("tensor", parallel.tensor, _splits_tensor),
        ("context", parallel.context, _splits_sequence),
    ):
        if degree > 1 and not do(type(model)):
            raise problem(
                document, ("parallel", name), f"{model.family} models are not split by {name} in this version",
                f"Families that are: {', '.join(families_that(do))}. data and sharding work for all.",
            )  # fmt: skip
    if parallel.tensor > 1 and parallel.sequence and not model.splits_sequence:
        message = f"{model.family} models are not split along the sequence in this version"
        hint = f"Families that are: {', '.join(families_that(_splits_sequence))}. Leave sequence out."
        raise problem(document, ("parallel", "sequence"), message, hint)
    traits = model.traits()
    if parallel.tensor > 1:
        _check_tensor(parallel.tensor, traits, document)
    _check_pipeline(parallel, model, workload, document)
    if parallel.context > 1:
        prefills = workload.phase == "prefill"
        length = workload.prompt_length if prefills else workload.sequence_length
        _divides(document, "context", parallel.context, length, "prompt_length" if prefills else "sequence_length")
    if parallel.tensor > 1 and parallel.sequence:
        _check_sequence(parallel, workload, document)
    if parallel.expert > 1 or parallel.expert_tensor is not None or parallel.expert_capacity is not None:
        _check_experts(parallel, traits, workload, document)
    if parallel.expert_imbalance > 1 and parallel.expert == 1:
        message = (
            f"expert_imbalance {parallel.expert_imbalance:g} without expert: no rank has fewer experts than another"
        )
        raise problem(document, ("parallel", "expert_imbalance"), message, "Set parallel.expert, or leave it out.")


def _splits_tensor(schema: type[ModelSpec]) -> bool:
    return schema.splits_tensor


def _splits_sequence(schema: type[ModelSpec]) -> bool:
    return schema.splits_sequence


def _check_inference(parallel: Parallel, workload: Workload, document: Document) -> None:
    phase = workload.phase
    if parallel.virtual_stages > 1:
        message = f"virtual stages belong to training, not to phase {phase}"
        raise problem(document, ("parallel", "virtual_stages"), message, "Leave it out.")
    if parallel.context > 1 and phase not in ("prefill", "forward"):
        message = f"context {parallel.context} in phase {phase}: new tokens are not split by context in this version"
        raise problem(document, ("parallel", "context"), message, "tensor, pipeline, data and expert are.")
    if parallel.sharding not in (None, "none"):
        message = f"sharding belongs to training, not to phase {phase}"
        raise problem(document, ("parallel", "sharding"), message, "Leave it out.")
    if parallel.sequence and phase in ("decode", "generate") and parallel.tensor > 1:
        message = f"sequence parallelism splits the tokens of a sequence; phase {phase} adds one at a time"
        raise problem(document, ("parallel", "sequence"), message, "Leave it out.")
    if parallel.expert_capacity is not None:
        message = f"a capacity factor belongs to training: experts drop no tokens in phase {phase}"
        raise problem(document, ("parallel", "expert_capacity"), message, "Leave it out.")


def _check_tensor(tensor: int, model: Traits, document: Document) -> None:
    for name, number in model.tensor_splits:
        _divides(document, "tensor", tensor, number, name)
    heads = model.key_value_heads
    if heads is not None and heads % tensor and tensor % heads:
        message = f"tensor {tensor} neither divides the {heads} key-value heads nor is a multiple of them"
        raise problem(document, ("parallel", "tensor"), message, f"Use one of {divisors(heads)}.")


def _check_sequence(parallel: Parallel, workload: Workload, document: Document) -> None:
    length = workload.prompt_length if workload.phase == "prefill" else workload.sequence_length
    ranks = parallel.tensor * parallel.context
    if workload.phase in ("train", "forward", "prefill") and length and length % ranks:
        shown = f"tensor {parallel.tensor}" + (f" x context {parallel.context}" if parallel.context > 1 else "")
        message = f"sequence parallelism cannot split {length} tokens evenly over {shown} ranks"
        raise problem(
            document, ("parallel", "sequence"), message, f"Use a multiple of {ranks} tokens, or sequence: false."
        )


def _check_pipeline(parallel: Parallel, model: ModelSpec, workload: Workload, document: Document) -> None:
    if parallel.pipeline == 1:
        if parallel.stage_layers is not None:
            message = "stage_layers without pipeline: there is one stage"
            hint = f"Set pipeline: {len(parallel.stage_layers)}."
            raise problem(document, ("parallel", "stage_layers"), message, hint)
        return
    if not model.stacked:
        message = f"{model.family} models have no single stack of layers that a pipeline could cut"
        stacked = families_that(lambda schema: schema.stacked)
        hint = f"Families that do: {', '.join(stacked)}. data and sharding work for all."
        raise problem(document, ("parallel", "pipeline"), message, hint)
    layers = model.traits().depth
    chunks = parallel.pipeline * parallel.virtual_stages
    if chunks > layers:
        what = f"{parallel.pipeline} x {parallel.virtual_stages} virtual" if parallel.virtual_stages > 1 else chunks
        message = f"{what} stages for {layers} layers: some would have none"
        raise problem(document, ("parallel", "pipeline"), message, f"At most {layers}.")
    counted = layers + parallel.account_for_embedding + parallel.account_for_loss
    schedule = load_schedule(parallel.schedule, parallel.virtual_stages)
    unit = schedule.layer_unit(parallel.pipeline, parallel.virtual_stages)
    if counted % unit:
        message = (
            f"{schedule.name} stages need layers ({counted}) that are a multiple of pipeline x virtual_stages = {unit}"
        )
        raise problem(document, ("parallel", "virtual_stages"), message, "Leave virtual_stages out.")
    if workload.phase == "train":
        _check_micro_batches(schedule, parallel, workload, document)
    _check_stages(parallel, layers, document)


def _check_micro_batches(schedule: ScheduleRules, parallel: Parallel, workload: Workload, document: Document) -> None:
    """Refuse micro batches that do not come in the rounds that a schedule asks for."""
    each = (workload.micro_batch_size or 1) * (parallel.data or 1)
    number = (workload.global_batch_size or each) // each
    unit = schedule.micro_batch_unit(parallel.pipeline, parallel.virtual_stages)
    if number % unit:
        what = "pipeline = " if unit == parallel.pipeline else ""
        message = f"{schedule.name} stages need micro batches ({number}) that are a multiple of {what}{unit}"
        below, above = number // unit * unit * each, -(-number // unit) * unit * each
        nearest = " or ".join(str(value) for value in (below, above) if value)
        raise problem(document, ("workload", "global_batch_size"), message, f"Nearest: {nearest}.")


def _check_stages(parallel: Parallel, layers: int, document: Document) -> None:
    """Refuse stated sizes of stages that do not make up the model."""
    given = parallel.stage_layers
    counted = parallel.account_for_embedding + parallel.account_for_loss
    if given is None:
        if (layers + counted) // parallel.pipeline <= max(parallel.account_for_embedding, parallel.account_for_loss):
            message = (
                f"{parallel.pipeline} stages for {layers} layers, embedding or loss counted as one: one would have none"
            )
            raise problem(document, ("parallel", "pipeline"), message, f"At most {(layers + counted) // 2}.")
        return
    path = ("parallel", "stage_layers")
    if counted or parallel.virtual_stages > 1:
        other = "virtual_stages" if parallel.virtual_stages > 1 else "account_for_embedding or account_for_loss"
        raise problem(document, path, f"stage_layers beside {other}", "Give one of them.")
    if len(given) != parallel.pipeline:
        message = f"{len(given)} numbers of layers for {parallel.pipeline} stages"
        raise problem(document, path, message, f"Give {parallel.pipeline} that add up to {layers}.")
    if sum(given) != layers:
        message = f"stage_layers add up to {sum(given)}, the model has {layers} layers"
        raise problem(document, path, message, f"Change them by {layers - sum(given):+d} in all.")
    if min(given) < 1:
        raise problem(document, path, "a stage without layers", "Give each at least one, or use fewer stages.")


def _check_experts(parallel: Parallel, model: Traits, workload: Workload, document: Document) -> None:
    experts = model.experts
    if not experts:
        raise problem(document, ("parallel", "expert"), "the model has no experts", "Leave it out.")
    _divides(document, "expert", parallel.expert, experts, "num_experts")
    if workload.phase != "train" and not parallel.sequence:
        _check_served_experts(parallel, document)
        return
    width = int(expert_tensor_of(parallel))
    _divides(document, "expert_tensor", width, model.expert_width, "expert_intermediate_size")
    dealt = parallel.expert > 1 or width != parallel.tensor
    if dealt and parallel.tensor > 1 and not parallel.sequence:
        message = "experts dealt out beside tensor parallelism need sequence: true (each tensor rank has its tokens)"
        raise problem(document, ("parallel", "expert"), message, "Set parallel.sequence.")
    ranks = parallel.tensor * parallel.context * (parallel.data or 1)
    if dealt and ranks % (parallel.expert * width):
        shown = f"expert {parallel.expert}" + (f" x expert_tensor {width}" if width > 1 else "")
        message = f"{shown} does not divide tensor x context x data = {ranks}, the ranks of a stage"
        raise problem(document, ("parallel", "expert"), message, f"Use one of {divisors(ranks)}.")


def _check_served_experts(parallel: Parallel, document: Document) -> None:
    """Refuse experts of inference that do not come out even: tensor ranks beyond those of experts split each of them."""
    ranks, tensor, expert = parallel.tensor * (parallel.data or 1), parallel.tensor, parallel.expert
    if ranks % expert:
        message = f"expert {expert} does not divide tensor x data = {ranks}, the ranks of a stage"
        raise problem(document, ("parallel", "expert"), message, f"Use one of {divisors(ranks)}.")
    if tensor % expert and expert % tensor:
        message = f"expert {expert} neither divides tensor {tensor} nor is a multiple of it"
        fits = [n for n in range(1, ranks + 1) if ranks % n == 0 and (tensor % n == 0 or n % tensor == 0)]
        raise problem(document, ("parallel", "expert"), message, f"Use one of {', '.join(map(str, fits[:12]))}.")
    width = max(tensor // expert, 1)
    if parallel.expert_tensor not in (None, width):
        message = f"expert_tensor {parallel.expert_tensor}, but tensor {tensor} over expert {expert} leaves {width}"
        raise problem(document, ("parallel", "expert_tensor"), message, "Leave it out.")


def _divides(document: Document, name: str, degree: int, size: int | None, what: str) -> None:
    if size is not None and size % degree:
        message = f"{name} {degree} does not divide {what} {size}"
        raise problem(document, ("parallel", name), message, f"Use one of {divisors(size)}.")


def divisors(size: int) -> str:
    """Return the degrees that divide a size, as a message names them."""
    degrees = [n for n in range(1, min(size, 1024) + 1) if size % n == 0]
    return ", ".join(map(str, degrees[:12])) + (" ..." if len(degrees) > 12 else "")


def _nearest(gpus: int, unit: int) -> str:
    below, above = gpus // unit * unit, -(-gpus // unit) * unit
    return " or ".join(str(value) for value in (below, above) if value)


def problem(document: Document, path: tuple[str, str], message: str, hint: str) -> SpecError:
    """Return the refusal of a key of the layout."""
    return SpecError(Problem(message, document.place(path), ".".join(path), hint))
