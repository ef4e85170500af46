"""Settle what surrounds a long run: what fails how often, and what its checkpoints and samples need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.errors import Problem, SpecError
from roofsim.spec.scenario.running import Reliability
from roofsim.spec.settle.offload import missing_of_place

if TYPE_CHECKING:
    from roofsim.spec.hardware.schema import System
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.workload import HardwareChoice, Workload


def reliability_of(
    choice: HardwareChoice, gpus: int, document: Document, assumed: list[str], usual_restart: float
) -> Reliability:
    """Return what the hardware section says of failures; those of one GPU are as many times as frequent for all.

    `usual_restart` are the seconds from a failure to the first step after it, beside reading the checkpoint, where nothing
    is stated.

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
        assumed.append(f"restart: {usual_restart:.0f} s after a failure")
    restart = usual_restart if choice.restart is None else choice.restart
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
        missing = missing_of_place(system, workload.input.place, writes=False)
        if missing is not None:
            raise _problem(document, path, *missing)


def _problem(document: Document, path: tuple[str, str], message: str, hint: str) -> SpecError:
    return SpecError(Problem(message, document.place(path), ".".join(path), hint, f"run-{path[-1].replace('_', '-')}"))
