"""List the changes that could make a scenario fit, each as values for keys of the scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.leaner import experts_may_move, leaner_choices
from roofsim.records import dataclass
from roofsim.search.fitting.bench import reach
from roofsim.spec import catalog
from roofsim.spec.hardware.schema import Gpu
from roofsim.spec.reading.validate import validate
from roofsim.spec.scenario.adapter import Adapter
from roofsim.spec.settle.offload import places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.search.fitting.bench import Attempt, Changes, Workbench
    from roofsim.spec.resolve import Resolved

#: How much each kind of recomputation saves, in this order.
_RECOMPUTES: Final = ("none", "selective", "full")
_SHARDINGS: Final = ("none", "optimizer", "gradients", "full")
#: So many cards are tried that hold the scenario as it is, and as many with less memory, down to half of that.
_CARDS: Final = 4
#: Keys that decide what is computed.
_DECIDING: Final = frozenset(
    {
        *("precision", "optimizer", "adapter"),
        *("sequence_length", "prompt_length", "output_length", "context_length", "image_size"),
    }
)
#: AdamW over lists of tensors, which holds more beside them than one kernel for all does.
_GROUPED: Final = "adamw"
_FUSED: Final = "adamw-fused"
_ADAM: Final = (_GROUPED, _FUSED, "adamw-loop")
#: Narrower ways to train in and to serve in, from wide to narrow; by what is asked now.
_TRAIN_IN: Final = {
    "fp32": ("16-amp", "16"),
    "tf32": ("16-amp", "16"),
    "fp16-amp": ("16",),
    "bf16-amp": ("16",),
    "bf16": ("fp8",),
    "fp16": ("fp8",),
}
_SERVE_IN: Final = ("fp32", "bf16", "fp8", "int8", "int4")
#: Shorter lengths are tried: these parts of the scenario's, down to the last.
_SHORTER: Final = (2, 4, 8)
_SHORTEST: Final = 64
#: So many times the GPUs are tried.
MULTIPLES: Final = (2, 4, 8)


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change. Of a group, one at a time applies.

    Attributes
    ----------
    hardware
        Whether it needs other or more hardware.
    in_another_way
        Whether it computes the same numbers, but for rounding, by other kernels.
    """

    name: str
    group: str
    changes: Changes
    hardware: bool = False
    in_another_way: bool = False

    @property
    def computes_otherwise(self) -> bool:
        """Whether it changes what is computed."""
        keys = {path.rpartition(".")[2] for path, value in self.changes.items() if value is not None}
        return not self.in_another_way and not _DECIDING.isdisjoint(keys)


def candidates(bench: Workbench, base: Attempt, batch: int | None = None) -> list[Change]:
    """Return the single changes of a scenario; `batch` is the largest micro batch that fits, if any does."""
    resolved = bench.resolved({})
    changes = [
        *_batches(resolved, batch or 1),
        *_lengths(resolved),
        *_software(bench, resolved),
        *_back(resolved, base),
        *_more_gpus(bench, resolved),
        *_cards(bench, resolved, base),
    ]
    return [change for change in changes if change.changes]


def _software(bench: Workbench, resolved: Resolved) -> Iterator[Change]:
    trains = resolved.workload.phase == "train"
    yield from _precisions(resolved)
    if experts_may_move(resolved):
        changes: Changes = {"parallel.offload.experts": "host"}
        yield Change(name="experts in host memory", group="offload experts", changes=changes)
    if not trains:
        return
    yield from _recomputation(resolved)
    yield from _quantised_base(resolved)
    for name, key, value in leaner_choices(resolved):
        yield Change(name=name, group=f"leaner {key}", changes={key: value})
    if resolved.workload.optimizer == _GROUPED:
        changes = {"workload.optimizer": _FUSED}
        yield Change(name="fused AdamW", group="optimizer", changes=changes, in_another_way=True)
    if resolved.workload.optimizer in _ADAM:
        yield Change(name="8-bit Adam", group="optimizer", changes={"workload.optimizer": "adam8bit"})
    yield from _shardings(resolved)
    if resolved.parallel.tensor > 1 and not resolved.parallel.sequence:
        yield Change(name="sequence parallelism", group="sequence", changes={"parallel.sequence": True})
    yield from _splits(bench, resolved)
    for what, name in (("optimizer_state", "optimizer state"), ("activations", "activations")):
        if getattr(resolved.parallel.offload, what) == "none":
            changes = {f"parallel.offload.{what}": "host"}
            yield Change(name=f"{name} in host memory", group=f"offload {what}", changes=changes)


def _back(resolved: Resolved, base: Attempt) -> Iterator[Change]:
    """Yield what leaves a part of the state on the device, where the place that it goes to has no room for it."""
    for part, place in places(resolved.parallel.offload).items():
        if base.missing_off_device.get(place):
            changes = {f"parallel.offload.{part}": "none"}
            yield Change(name=f"{part.replace('_', ' ')} on the device", group=f"offload {part}", changes=changes)


def _recomputation(resolved: Resolved) -> Iterator[Change]:
    given = resolved.workload.recompute
    now = given if isinstance(given, str) else given.policy
    for kind in _RECOMPUTES[_RECOMPUTES.index(now) + 1 :] or (("full",) if given != "full" else ()):
        yield Change(name=f"{kind} recomputation", group="recompute", changes={"workload.recompute": kind})


def _quantised_base(resolved: Resolved) -> Iterator[Change]:
    """Return the same adapters beside a base in 4 bits, where it is stored wide."""
    given = resolved.workload.adapter
    wide = given == "lora" or (isinstance(given, Adapter) and given.kind == "lora" and given.base in (None, "none"))
    if given is None or not wide:
        return
    stated = {} if isinstance(given, str) else given.model_dump(mode="json", exclude_unset=True, exclude={"base"})
    changes: Changes = {"workload.adapter": {**stated, "kind": "qlora"} if stated.keys() - {"kind"} else "qlora"}
    yield Change(name="qlora, the frozen base in 4 bits", group="adapter", changes=changes)


def _batches(resolved: Resolved, fitting: int) -> Iterator[Change]:
    """Return smaller batches: a half, a quarter, the largest divisor that fits, and one."""
    micro = int(resolved.workload.micro_batch_size or 1)
    divisor = next(size for size in range(min(fitting, micro), 0, -1) if micro % size == 0)
    for smaller in dict.fromkeys((micro // 2, micro // 4, divisor, 1)):
        if not 1 <= smaller < micro:
            continue
        changes: dict[str, Any] = {"workload.micro_batch_size": smaller, "workload.batch_size": None}
        name = f"batch of {smaller}"
        if resolved.workload.phase == "train":
            whole, data = resolved.workload.global_batch_size or micro, resolved.parallel.data or 1
            if whole % (smaller * data) == 0:
                changes["workload.global_batch_size"] = whole
            name = f"micro batch of {smaller}, accumulated"
        yield Change(name=name, group="batch", changes=changes)


def _lengths(resolved: Resolved) -> Iterator[Change]:
    """Return shorter sequences, prompts or contexts: a half, a quarter, an eighth."""
    phase = resolved.workload.phase
    key = {"decode": "context_length", "prefill": "prompt_length", "generate": "prompt_length"}.get(
        phase, "sequence_length"
    )
    length = getattr(resolved.workload, key)
    for divisor in _SHORTER:
        if isinstance(length, int) and length // divisor >= _SHORTEST:
            shorter = length // divisor
            name = f"{key.replace('_', ' ')} {shorter}"
            yield Change(name=name, group="length", changes={f"workload.{key}": shorter})


def _precisions(resolved: Resolved) -> Iterator[Change]:
    now = resolved.workload.precision or resolved.precision.name
    if not isinstance(now, str):
        return
    if resolved.workload.phase == "train":
        sixteen = "bf16" if "bf16" in resolved.gpu.peak else "fp16"
        names = [name.replace("16", sixteen, 1) if name.startswith("16") else name for name in _TRAIN_IN.get(now, ())]
    else:
        at = _SERVE_IN.index(now) if now in _SERVE_IN else 1 if now == "fp16" else len(_SERVE_IN)
        names = list(_SERVE_IN[at + 1 :])
    for name in names:
        if not name.startswith("fp8") or "fp8" in resolved.gpu.peak:
            yield Change(name=f"precision {name}", group="precision", changes={"workload.precision": name})


def _shardings(resolved: Resolved) -> Iterator[Change]:
    parallel = resolved.parallel
    if (parallel.data or 1) * parallel.context == 1:
        return
    now = parallel.sharding if isinstance(parallel.sharding, str) else "full"
    for level in _SHARDINGS[_SHARDINGS.index(now) + 1 :]:
        name = {"optimizer": "optimizer state", "gradients": "gradients and optimizer state", "full": "all state"}[
            level
        ]
        yield Change(name=f"{name} sharded", group="sharding", changes={"parallel.sharding": level})


def _splits(bench: Workbench, resolved: Resolved) -> Iterator[Change]:
    """Split layers or the stack further over the GPUs there are: fewer replicas."""
    parallel = resolved.parallel
    if (parallel.data or 1) % 2:
        return
    for name in ("tensor", "pipeline"):
        degree = 2 * getattr(parallel, name)
        changes: Changes = {f"parallel.{name}": degree, "parallel.data": None}
        if not bench.stated("hardware.gpus"):
            changes["hardware.gpus"] = resolved.gpus
        if name == "tensor" and not bench.stated("parallel.sequence"):
            changes["parallel.sequence"] = True
        yield Change(name=f"{name} {degree}", group="layout", changes=changes)


def _more_gpus(bench: Workbench, resolved: Resolved) -> Iterator[Change]:
    parallel, trains = resolved.parallel, resolved.workload.phase == "train"
    for times in MULTIPLES:
        gpus = resolved.gpus * times
        if gpus > (reach(resolved) or gpus):
            continue
        more: Changes = {"hardware.gpus": gpus, "parallel.data": None}
        if resolved.workload.global_batch_size is not None and bench.stated("workload.global_batch_size"):
            more["workload.global_batch_size"] = resolved.workload.global_batch_size
        if trains:
            changes = more | {"parallel.sharding": "full"}
            yield Change(name=f"{gpus} GPUs, all state sharded", group="layout", changes=changes, hardware=True)
            changes = more | {"parallel.pipeline": parallel.pipeline * times}
            yield Change(
                name=f"{gpus} GPUs, pipeline {parallel.pipeline * times}",
                group="layout",
                changes=changes,
                hardware=True,
            )
        degree = parallel.tensor * times
        if degree <= max(resolved.places, 1):
            changes = more | {"parallel.tensor": degree}
            if trains and not bench.stated("parallel.sequence"):
                changes["parallel.sequence"] = True
            yield Change(name=f"{gpus} GPUs, tensor {degree}", group="layout", changes=changes, hardware=True)


def _cards(bench: Workbench, resolved: Resolved, base: Attempt) -> Iterator[Change]:
    """Return cards with more memory, of the same vendor first, cheap ones first."""
    if any(path.startswith("gpu") for path in resolved.override):
        return
    now = resolved.gpu
    larger = [gpu for gpu in _catalog() if gpu.memory.capacity > max(now.memory.capacity, base.memory / 2.0)]
    larger.sort(key=lambda gpu: (gpu.vendor != now.vendor, *_price(gpu), gpu.name))
    holds = [gpu for gpu in larger if gpu.memory.capacity >= base.memory]
    less = [gpu for gpu in larger if gpu.memory.capacity < base.memory]
    for gpu in (*holds[:_CARDS], *less[:_CARDS]):
        changes: Changes = {"hardware.gpu": gpu.name}
        if bench.stated("hardware.system"):
            changes["hardware.system"] = None
        yield Change(name=f"card {gpu.name}", group="card", changes=changes, hardware=True)


def _price(gpu: Gpu) -> tuple[bool, float, float]:
    hourly, purchase = gpu.price.hourly, gpu.price.purchase
    return hourly is None and purchase is None, hourly or float("inf"), purchase or float("inf")


def _catalog() -> list[Gpu]:
    return [validate(Gpu, catalog.load("gpu", name)) for name in catalog.names("gpu")]
