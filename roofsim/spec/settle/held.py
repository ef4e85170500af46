"""Hold a card to less power, or to a lower clock, than it has by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.errors import Problem, SpecError
from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.spec.hardware.schema import Gpu
    from roofsim.spec.reading.source import Document
    from roofsim.spec.scenario.workload import HardwareChoice

#: Share of the card's own power down to which measurements of one chip at several limits reach: A100 at 250 of 400 W, RTX 4090 at
#: 268 of 450 W.
MEASURED: Final = 0.6
#: Share below which nothing is predicted: a third of a busy card's power is static or flat.
LEAST: Final = 1.0 / 3.0


def held(gpu: Gpu, choice: HardwareChoice, scenario: Document, assumed: list[str]) -> Gpu:
    """Return a card as its limits leave it: less power to draw, and peaks of a lower clock.

    Traffic keeps its rate: memory has a clock of its own.

    Raises
    ------
    SpecError
        For a limit above what the card has, far below it, or of a card whose own is not known.
    """
    if choice.power_limit is not None:
        gpu = _with_power(gpu, choice.power_limit, scenario, assumed)
    return gpu if choice.clock_limit is None else _with_clock(gpu, choice.clock_limit, scenario, assumed)


def _with_power(gpu: Gpu, limit: float, scenario: Document, assumed: list[str]) -> Gpu:
    if gpu.tdp is None:
        raise _problem(scenario, "power_limit", f"the power of {gpu.name} is not known", "State it: --set tdp='300 W'.")
    own = humanize(gpu.tdp, "W", 3)
    if limit > gpu.tdp:
        raise _problem(
            scenario, "power_limit", f"{humanize(limit, 'W', 3)} is more than {gpu.name} draws by itself, {own}"
        )
    if limit < LEAST * gpu.tdp:
        least = humanize(LEAST * gpu.tdp, "W", 3)
        message = f"{humanize(limit, 'W', 3)} is less than a third of the {own} of {gpu.name}"
        raise _problem(scenario, "power_limit", message, f"Cards draw about a third without any work: from {least} on.")
    beyond = ", below what was measured on any card" if limit < MEASURED * gpu.tdp else ""
    assumed.append(f"power_limit: {humanize(limit, 'W', 3)} of {own}{beyond}")
    return gpu.model_copy(update={"tdp": limit, "power_held": limit / gpu.tdp})


def _with_clock(gpu: Gpu, limit: float, scenario: Document, assumed: list[str]) -> Gpu:
    if gpu.clock is None:
        raise _problem(scenario, "clock_limit", f"the clock of {gpu.name} is not known")
    boost = gpu.clock.boost
    most = boost if gpu.clock.maximum is None else max(boost, gpu.clock.maximum)
    if limit > most:
        message = f"{humanize(limit, 'Hz', 3)} is more than {gpu.name} reaches, {humanize(most, 'Hz', 3)}"
        raise _problem(scenario, "clock_limit", message)
    if limit < LEAST * boost:
        message = f"{humanize(limit, 'Hz', 3)} is less than a third of the {humanize(boost, 'Hz', 3)} of {gpu.name}"
        raise _problem(scenario, "clock_limit", message)
    assumed.append(f"clock_limit: {humanize(limit, 'Hz', 3)} of {humanize(most, 'Hz', 3)}")
    matrix, vector = min(1.0, limit / boost), min(1.0, limit / most)
    changes = {
        "peak": {name: rate * matrix for name, rate in gpu.peak.items()},
        "vector_peak": {name: rate * vector for name, rate in gpu.vector_peak.items()},
        "clock": gpu.clock.model_copy(update={"boost": min(boost, limit), "maximum": min(most, limit), "held": matrix}),
    }
    return gpu.model_copy(update=changes)


def _problem(scenario: Document, key: str, message: str, hint: str = "") -> SpecError:
    place = scenario.place(("hardware", key))
    return SpecError(Problem(message, place, f"hardware.{key}", hint))
