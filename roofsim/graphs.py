"""Make the graphs of a scenario: lower its model, run the passes; of a template, where one of its structure was made before."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from roofsim.graph.tensor import DTYPES
from roofsim.kept import NoKeyError, joined, key_of, parted
from roofsim.lower.dispatch import is_plugged, lower_networks
from roofsim.lower.of_images import lowered, with_maps
from roofsim.lower.of_scenario import call_of
from roofsim.lower.shares import one
from roofsim.numeric import is_none, is_scalar, real
from roofsim.passes.host.placement import offloaded
from roofsim.passes.manager import inference_passes, packed_weight_passes, run_passes, training_passes, written_from
from roofsim.passes.plugged import with_plugged
from roofsim.passes.ranks.parallel import DataParallel
from roofsim.passes.ranks.replicas import Replicas
from roofsim.passes.ranks.stage import TakeStage
from roofsim.records import replace
from roofsim.spec.scenario.adapter import Adapter
from roofsim.spec.scenario.layout import layout_of
from roofsim.spec.scenario.sharding import ShardedOver
from roofsim.spec.scenario.workload import RecomputePlan
from roofsim.traced.points import keyed

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from roofsim.graph.opgraph import OpGraph
    from roofsim.lower.network import Network
    from roofsim.numeric import Real
    from roofsim.passes.manager import Pass
    from roofsim.schedule.pipeline.stages import StagePlan
    from roofsim.spec.precision.roles import Precision
    from roofsim.spec.resolve import Resolved
    from roofsim.templates import Templates


class Graphs:
    """The graphs of a scenario, made plainly or of `templates`, for which methods named ``make_`` run on symbols for numbers."""

    def __init__(self, resolved: Resolved, templates: Templates | None = None) -> None:
        self.resolved = resolved
        self.templates = templates if is_own_code(resolved) else None

    def made(self, way: str, *options: Hashable, sizes: Sequence[Real] = ()) -> Any:
        """Return what ``make_<way>(*options, *sizes)`` gives, of a template where there is one."""
        known = None if self.templates is None else self._parted
        if self.templates is None or known is None or not is_scalar(*sizes):
            return getattr(self, f"make_{way}")(*options, *sizes)
        form, numbers, structural = known

        def make_of(given: Sequence[Any]) -> Any:
            left = iter(given)
            model, workload, parallel = joined(
                (self.resolved.model, self.resolved.workload, self.resolved.parallel), left
            )
            scenario = replace(self.resolved, model=model, workload=workload, parallel=parallel)
            return getattr(type(self)(scenario), f"make_{way}")(*options, *left)

        return self.templates.made(
            (type(self), way, options, form),
            numbers,
            sizes,
            lambda: getattr(self, f"make_{way}")(*options, *sizes),
            make_of,
            structural,
        )

    @cached_property
    def _parted(self) -> tuple[Hashable, list[Any], int] | None:
        """The scenario without its numbers, these, and how many of them, the first, are the model's; None: they are arrays."""
        numbers: list[Any] = []
        try:
            of_model = parted(self.resolved.model, numbers)
            structural = len(numbers)
            rest = parted((self.resolved.workload, self.resolved.parallel), numbers)
            return (of_model, rest, key_of(*around(self.resolved))), numbers, structural
        except NoKeyError:
            return None


def is_own_code(resolved: Resolved) -> bool:
    """Tell whether no code of a plug-in builds the graphs, which may not know what symbols are."""
    return not resolved.workload.passes and not is_plugged(resolved.model)


def around(resolved: Resolved) -> tuple[Any, ...]:
    """Return what graphs depend on beside the model, the work and the layout: no more of the hardware than this."""
    return (
        resolved.engine,
        resolved.precision,
        "tf32" in resolved.gpu.peak,
        resolved.system.host.issue_factor,
        written_from(resolved),
        _separates_experts(resolved),
    )


def _separates_experts(resolved: Resolved) -> bool:
    """Tell whether products of experts stand alone: of a model without experts never, so that its graphs serve all cards."""
    return not is_none(resolved.model.traits().experts) and resolved.engine.separates_experts(
        resolved.architecture.name
    )


def library_passes(resolved: Resolved, precision: Precision) -> list[Pass]:
    """Return the passes that state which of a library's products run: the last of all, once every product stands."""
    passes = packed_weight_passes(resolved, precision)
    if not _separates_experts(resolved):
        return passes
    from roofsim.passes.kernels.separate_experts import SeparateExperts

    return [*passes, SeparateExperts()]


class TrainingGraphs(Graphs):
    """The graphs of a training step: one, or one for each kind of stage of a pipeline."""

    def step(self) -> OpGraph:
        """Return the step of a model that no pipeline cuts."""
        graph: OpGraph = self.made("step")
        return graph

    def layers(self) -> tuple[Real, ...]:
        """Return how many layers each block of the model has."""
        layers: tuple[Real, ...] = self.made("layers")
        return layers

    def stage(self, plan: StagePlan) -> OpGraph:
        """Return the step of a kind of pipeline stage."""
        there = tuple(not is_none(count) for count in plan.counts)
        graph: OpGraph = self.made("stage", plan.first, plan.last, there, sizes=plan.counts)
        return graph

    def make_step(self) -> OpGraph:
        """Run all passes on the whole model."""
        return run_passes(self._lowered, self._passes)

    def make_layers(self) -> tuple[Real, ...]:
        """Count the layers of the model's blocks."""
        return tuple(block.repeat for block in self._lowered.blocks)

    def make_stage(self, first: bool, last: bool, there: tuple[bool, ...], *counts: Real) -> OpGraph:
        """Run all passes on a stage; `there` tells which blocks it has layers of."""
        own = tuple(count if has else 0.0 for count, has in zip(counts, there, strict=True))
        take = TakeStage(counts=own, first=first, last=last, ranks=layout_of(self.resolved.parallel).pipeline)
        return run_passes(self._lowered, [take, *self._passes])

    @cached_property
    def _lowered(self) -> OpGraph:
        return lowered(self.resolved, call_of(self.resolved, "train"))

    @cached_property
    def _passes(self) -> list[Pass]:
        resolved, number = self.resolved, num_micro_batches(self.resolved)
        passes = training_passes(
            resolved.precision,
            resolved.engine,
            recompute_plan(resolved),
            resolved.workload.optimizer,
            number,
            adapter_of(resolved),
            averages=resolved.workload.weight_average == "ema",
        )
        passes = _data_parallel(resolved).into(passes, resolved.precision, resolved.engine, number)
        passes = offloaded(passes, resolved.parallel.offload, resolved.precision, number)
        passes = [*passes, *_outer_steps(resolved), *library_passes(resolved, resolved.precision)]
        return with_plugged(passes, resolved, "train")


class NetworkGraphs(Graphs):
    """The networks of a model that has several, such as a diffusion pipeline."""

    def networks(self) -> tuple[Network, ...]:
        """Return them with all passes run."""
        networks: tuple[Network, ...] = self.made("networks")
        return networks

    def make_networks(self) -> tuple[Network, ...]:
        """Lower the networks, and run the passes on each."""
        resolved = self.resolved
        plain, wide = plain_precision(resolved), decoder_precision(resolved)
        steps = real(resolved.workload.num_inference_steps or 1)
        networks = []
        for network in lower_networks(resolved.model, call_of(resolved, "forward"), DTYPES[wide.compute], steps):
            types = wide if network.wide else resolved.precision if network.narrow else plain
            passes = [*inference_passes(types, resolved.engine), *library_passes(resolved, types)]
            graph = run_passes(with_maps(resolved, network.graph), with_plugged(passes, resolved, "forward"))
            networks.append(replace(network, graph=graph))
        return tuple(networks)


def num_micro_batches(resolved: Resolved) -> Real:
    """Return the micro batches of a training step on each rank."""
    workload = resolved.workload
    number: Real = real(workload.global_batch_size) / (real(workload.micro_batch_size) * real(resolved.parallel.data))
    return cast("Real", keyed(number))


def plain_precision(resolved: Resolved) -> Precision:
    """Return the types of a pipeline's networks beside the denoiser: formats of narrow products are of the denoiser alone.

    NVIDIA Model Optimizer quantizes the backbone of a pipeline (examples/diffusers), as do torchao's recipes for diffusers.
    """
    precision = resolved.precision
    if precision.operands is None:
        return precision
    return replace(precision, math=precision.compute, weights=None, operands=None)


def decoder_precision(resolved: Resolved) -> Precision:
    """Return the types that a diffusion pipeline decodes its images in: fp32 beside fp16 where its decoder needs that.

    PyTorch's convolutions in fp32 take TF32 where the card has it (torch.backends.cudnn.allow_tf32), and so do TensorRT's.
    Beside narrow products an engine keeps its usual 16-bit type.
    """
    precision = plain_precision(resolved)
    half = precision.compute == "fp16" or (
        precision is not resolved.precision and resolved.engine.precision.sixteen == "fp16"
    )
    if not resolved.model.traits().decodes_images_wide or not half:
        return precision
    math = "tf32" if "tf32" in resolved.gpu.peak else "fp32"
    return replace(precision, compute="fp32", math=math, parameters="fp32", weights=None, operands=None, autocast=False)


def recompute_plan(resolved: Resolved) -> RecomputePlan:
    """Return the recomputation as a plan, whichever way it was written."""
    given = resolved.workload.recompute
    return RecomputePlan(policy=given) if isinstance(given, str) else given


def adapter_of(resolved: Resolved) -> Adapter | None:
    """Return the adapters, whichever way they were written."""
    given = resolved.workload.adapter
    return Adapter(kind=given) if isinstance(given, str) else given


def _outer_steps(resolved: Resolved) -> list[Pass]:
    """Return the pass that brings workers together, where they train apart."""
    steps, layout = resolved.parallel.local_steps, layout_of(resolved.parallel)
    if steps is None or one(layout.workers):
        return []
    from roofsim.passes.optimizer.local_steps import ExchangeParameters

    master = resolved.precision.master_parameters
    return [
        ExchangeParameters(
            ranks=layout.workers * layout.replicas / layout.parts,
            every=real(steps.every),
            stored=None if master is None else DTYPES[master],
            travels_in=None if steps.travels_in is None else DTYPES[steps.travels_in],
        )
    ]


def _data_parallel(resolved: Resolved) -> DataParallel:
    layout, sharding = layout_of(resolved.parallel), resolved.parallel.sharding
    level = sharding.level if isinstance(sharding, ShardedOver) else sharding or "none"
    replicas = Replicas(all=layout.replicas, experts=layout.expert_replicas, shards=layout.shards)
    return DataParallel(replicas=replicas, level=level, pipelined=not one(layout.pipeline))
