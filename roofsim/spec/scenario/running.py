"""Describe what surrounds the steps of a long run: checkpoints, failures, stragglers, and where samples come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Self

from roofsim.errors import Problem, SpecError
from roofsim.records import dataclass
from roofsim.schema.base import BaseModel, ConfigDict, Field, model_validator
from roofsim.spec.reading.quantity import Bandwidth, Bytes, Duration, SecondsOrNone

if TYPE_CHECKING:
    from roofsim.spec.hardware.schema import System
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.workload import HardwareChoice, Workload

#: Seconds from a failure to the first step after it, beside reading the checkpoint, where nothing is stated: to notice,
#: to take the node out, to start processes and communicators (plausible 2 to 30 minutes).
USUAL_RESTART: Final = 300.0


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())


class Checkpoint(_Strict):
    """How often parameters and optimizer state are written, and where to."""

    every: Annotated[int, Field(ge=1, le=10**9)] | None = Field(default=None, description="Steps between checkpoints.")
    interval: Duration | None = Field(default=None, description="Time between checkpoints, instead of steps.")
    background: bool = Field(
        default=False, description="Training goes on when the state is copied to the host; it is written from there."
    )
    bandwidth: Bandwidth | None = Field(
        default=None, description="What all nodes together can write, where that is less than their own storage.write."
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.every is not None and self.interval is not None:
            raise ValueError("every (steps) and interval (time) say the same; give one")
        return self


class Input(_Strict):
    """What has to be done to each sample before a step takes it."""

    bytes_per_sample: Bytes = Field(description="As it lies in storage.")
    decode_time: SecondsOrNone = Field(
        default=0.0, description="Seconds of one CPU core to decode, crop, tokenise one sample."
    )
    workers: Annotated[int, Field(ge=1, le=4096)] = Field(
        default=1, description="Processes that decode, for each data-parallel rank (num_workers of a DataLoader)."
    )
    decoded_bytes: Bytes | None = Field(
        default=None, description="As it is copied to the device; left out: as it lies in storage."
    )


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """What goes wrong in a long run.

    Attributes
    ----------
    mtbf
        Mean seconds between failures of the whole job; None: nothing fails.
    restart
        Seconds from a failure to the first step after it, beside reading the checkpoint.
    jitter
        Standard deviation of the time of one rank's step, as a share of it.
    """

    mtbf: float | None = None
    restart: float = USUAL_RESTART
    jitter: float = 0.0


def reliability_of(choice: HardwareChoice, gpus: int, document: Document, assumed: list[str]) -> Reliability:
    """Return what the hardware section says of failures; those of one GPU are as many times as frequent for all.

    Raises
    ------
    SpecError
        When both ways to say it are used.
    """
    if choice.mtbf is not None and choice.mtbf_per_gpu is not None:
        raise _problem(
            document, ("hardware", "mtbf_per_gpu"), "mtbf (of the whole job) and mtbf_per_gpu say the same", "Give one."
        )
    mtbf = choice.mtbf if choice.mtbf_per_gpu is None else choice.mtbf_per_gpu / gpus
    if mtbf is not None and choice.restart is None:
        assumed.append(f"restart: {USUAL_RESTART:.0f} s after a failure")
    restart = USUAL_RESTART if choice.restart is None else choice.restart
    return Reliability(mtbf=mtbf, restart=restart, jitter=choice.jitter)


def check_running(workload: Workload, reliability: Reliability, system: System, document: Document) -> None:
    """Refuse checkpoints, failures and inputs of phases that have none, or whose speed nobody states.

    Raises
    ------
    SpecError
        Names the number that is missing, or what goes with it.
    """
    trains, checkpoint = workload.phase == "train", workload.checkpoint
    if checkpoint is not None:
        path = ("workload", "checkpoint")
        if not trains:
            raise _problem(document, path, f"phase {workload.phase} writes no checkpoints", "Leave it out.")
        if system.storage.write is None and checkpoint.bandwidth is None:
            message = f"system {system.name} does not state storage.write"
            hint = "State checkpoint.bandwidth, or hardware.override: {system.storage.write: 5 GB/s}."
            raise _problem(document, path, message, hint)
        if checkpoint.every is None and checkpoint.interval is None and reliability.mtbf is None:
            hint = "State one; with hardware.mtbf the best interval is taken."
            raise _problem(document, path, "expected every (steps) or interval (time)", hint)
    elif reliability.mtbf is not None and trains:
        hint = "State workload.checkpoint, for example {interval: 30 min}; {} takes the best interval."
        raise _problem(document, ("hardware", "mtbf"), "without checkpoints a failure loses the whole run", hint)
    if workload.input is not None:
        path = ("workload", "input")
        if workload.phase not in ("train", "forward"):
            message = f"phase {workload.phase} has no stream of samples"
            raise _problem(document, path, message, "train and forward have.")
        if system.storage.read is None:
            message = f"system {system.name} does not state storage.read"
            raise _problem(document, path, message, "State hardware.override: {system.storage.read: 5 GB/s}.")


def _problem(document: Document, path: tuple[str, str], message: str, hint: str) -> SpecError:
    return SpecError(Problem(message, document.place(path), ".".join(path), hint))
