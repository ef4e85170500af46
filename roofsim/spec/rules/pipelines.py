"""Refuse a pipeline that layers or micro batches cannot be dealt out to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.spec.model.registry import families_that
from roofsim.spec.rules.rule import Rule, ScenarioCase, where_so
from roofsim.spec.scenario.layout import nearest
from roofsim.spec.scenario.schedules import load_schedule

if TYPE_CHECKING:
    from roofsim.spec.scenario.point import Number
    from roofsim.spec.scenario.schedules import ScheduleRules


def _piped(case: ScenarioCase) -> Any:
    return case.point.pipeline > 1


def _schedule(case: ScenarioCase) -> ScheduleRules:
    return load_schedule(case.parallel.schedule, case.point.virtual_stages)


def _dealt_out(case: ScenarioCase) -> int:
    """Return what is dealt out beside layers: an embedding and a loss that count as one each."""
    return case.parallel.account_for_embedding + case.parallel.account_for_loss


def _more_than_layers(case: ScenarioCase) -> tuple[str, str]:
    pipeline, virtual, layers = case.point.pipeline, case.point.virtual_stages, case.traits.depth
    what = f"{pipeline} x {virtual} virtual" if virtual > 1 else pipeline
    return f"{what} stages for {layers} layers: some would have none", f"At most {layers}."


def _layer_unit(case: ScenarioCase) -> Number:
    return _schedule(case).layer_unit(case.point.pipeline, case.point.virtual_stages)


def _even_layers(case: ScenarioCase) -> str:
    """Return what makes the layers of a pipeline come out even: embedding and loss counted as layers, if that does."""
    layers, unit, out = case.traits.depth, _layer_unit(case), "leave virtual_stages out."
    if (layers + 1) % unit == 0:
        return f"Set account_for_embedding or account_for_loss, which counts the embedding or the loss as a layer, or {out}"
    if (layers + 2) % unit == 0:
        return f"Set account_for_embedding and account_for_loss, which count embedding and loss as layers, or {out}"
    return out.capitalize()


def _micro_batch_unit(case: ScenarioCase) -> Number:
    return _schedule(case).micro_batch_unit(case.point.pipeline, case.point.virtual_stages)


def _rounds_broken(case: ScenarioCase) -> Any:
    trains = case.workload.phase == "train"
    return trains and where_so(_piped(case), lambda: case.point.micro_batches % _micro_batch_unit(case) != 0)


def _whole_rounds(case: ScenarioCase) -> tuple[str, str]:
    point, unit = case.point, _micro_batch_unit(case)
    each = point.micro_batch_size * point.data
    what = "pipeline = " if unit == point.pipeline else ""
    message = (
        f"{_schedule(case).name} stages need micro batches ({point.micro_batches}) that are a multiple of {what}{unit}"
    )
    return message, f"Nearest: {nearest(point.micro_batches * each, unit * each)}."


def _empty_stage(case: ScenarioCase) -> Any:
    if case.parallel.stage_layers is not None:
        return False
    most = max(case.parallel.account_for_embedding, case.parallel.account_for_loss)
    return _piped(case) & ((case.traits.depth + _dealt_out(case)) // case.point.pipeline <= most)


def _stated(case: ScenarioCase) -> tuple[int, ...] | None:
    """Return the sizes of stages that the scenario states."""
    return case.parallel.stage_layers


def _sum_of_stages(case: ScenarioCase) -> tuple[str, str]:
    whole, layers = sum(_stated(case) or ()), case.traits.depth
    message = f"stage_layers add up to {whole}, the model has {layers} layers"
    return message, f"Change them by {layers - whole:+d} in all."


def _stated_beside(case: ScenarioCase) -> tuple[str, str]:
    other = "virtual_stages" if case.point.virtual_stages > 1 else "account_for_embedding or account_for_loss"
    return f"stage_layers beside {other}", "Give one of them."


def _uncut(case: ScenarioCase) -> str:
    part = case.model.unsplit("pipeline")
    if part:
        return f"{case.model.name} has no single stack of layers that a pipeline could cut: {part}"
    return f"{case.model.family} models have no single stack of layers that a pipeline could cut"


PIPELINES: Final[tuple[Rule[ScenarioCase], ...]] = (
    Rule(
        "stage-layers-without-pipeline",
        "parallel.stage_layers",
        lambda case: (_stated(case) is not None) & (case.point.pipeline == 1),
        lambda case: (
            "stage_layers without pipeline: there is one stage",
            f"Set pipeline: {len(_stated(case) or ())}.",
        ),
    ),
    Rule(
        "pipeline-of-family",
        "parallel.pipeline",
        lambda case: (not case.model.stacked) & _piped(case),
        lambda case: (
            _uncut(case),
            f"Families that do: {', '.join(families_that(lambda schema: schema.stacked))}. data and sharding work for all.",
        ),
    ),
    Rule(
        "more-stages-than-layers",
        "parallel.pipeline",
        lambda case: _piped(case) & (case.point.pipeline * case.point.virtual_stages > case.traits.depth),
        _more_than_layers,
    ),
    Rule(
        "layers-per-chunk",
        "parallel.virtual_stages",
        lambda case: where_so(_piped(case), lambda: (case.traits.depth + _dealt_out(case)) % _layer_unit(case) != 0),
        lambda case: (
            (
                f"{_schedule(case).name} stages need layers ({case.traits.depth + _dealt_out(case)}) that are a multiple of "
                f"pipeline x virtual_stages = {_layer_unit(case)}"
            ),
            _even_layers(case),
        ),
    ),
    Rule("micro-batches-in-rounds", "workload.global_batch_size", _rounds_broken, _whole_rounds),
    Rule(
        "stage-without-layers",
        "parallel.pipeline",
        _empty_stage,
        lambda case: (
            f"{case.point.pipeline} stages for {case.traits.depth} layers, embedding or loss counted as one: one would have none",
            f"At most {(case.traits.depth + _dealt_out(case)) // 2}.",
        ),
    ),
    Rule(
        "stage-layers-beside-other",
        "parallel.stage_layers",
        lambda case: (
            (_stated(case) is not None) & _piped(case) & ((_dealt_out(case) > 0) | (case.point.virtual_stages > 1))
        ),
        _stated_beside,
    ),
    Rule(
        "stage-layers-number",
        "parallel.stage_layers",
        lambda case: _stated(case) is not None and _piped(case) & (case.point.pipeline != len(_stated(case) or ())),
        lambda case: (
            f"{len(_stated(case) or ())} numbers of layers for {case.point.pipeline} stages",
            f"Give {case.point.pipeline} that add up to {case.traits.depth}.",
        ),
    ),
    Rule(
        "stage-layers-sum",
        "parallel.stage_layers",
        lambda case: _stated(case) is not None and _piped(case) & (case.traits.depth != sum(_stated(case) or ())),
        _sum_of_stages,
    ),
    Rule(
        "stage-layers-of-none",
        "parallel.stage_layers",
        lambda case: _stated(case) is not None and _piped(case) & (min(_stated(case) or (1,)) < 1),
        lambda _: ("a stage without layers", "Give each at least one, or use fewer stages."),
    ),
)
