"""Fit the constants of steps to measured steps: shared ones first, then what architectures and cards deviate."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.optimize import least_squares

from roofsim.calibrate.kernels.scores import load_kernels
from roofsim.records import dataclass
from roofsim.spec.constants.kernels import Constants, Deviation
from roofsim.units import parse
from roofsim_evidence.kernels.power import best_product
from roofsim_evidence.kernels.score import measured_file
from roofsim_evidence.steps.table import FORMATS, StepTable, predict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim.calibrate.cases import Case
    from roofsim.numeric import Array

#: Spread (in logarithm) that is expected of constants around the shipped ones, of architectures around the shared
#: constants, and of cards around their architecture: how strongly a fit is held back where data are few.
PRIOR: Final = {"shared": 0.5, "architecture": 0.35, "gpu": 0.25}
#: Spread of single measurements around a good model, for weighing them against the expected spreads above.
NOISE: Final = 0.05
#: Cards of an architecture that must stand behind a deviation before it is believed for their sisters.
CARDS_FOR_ARCHITECTURE: Final = 3
#: Fitted rows that a card needs for a deviation of its own.
ROWS_FOR_CARD: Final = 2

#: Steps whose host needs more than this share of the measured time say little of the device.
HOST_SHARE: Final = 0.35

#: Formats whose products on matrix units reach no more of the peak, at the clock that the card runs at, than the best that were
#: measured as single kernels; ordinary units may reach all of it.
MATRIX: Final = ("fp16", "tf32")

#: Plausible ranges of the shared constants.
BOUNDS: Final[dict[str, tuple[float, float]]] = {
    "stream": (0.75, 1.0),
    "compute.fp16": (0.6, 0.92),
    "compute.tf32": (0.6, 0.92),
    # The best hundredth of measured fp32 products reaches 0.93 of the peak of a P100, 0.95 of an A100, 0.99 of a V100 and all of a
    # GTX 1080 Ti (`evidence score kernels`); cards of 70 W do not, for want of power. Lower shares, which steps of such cards
    # ask for, would be lent to every card that nobody measured in fp32.
    "compute.fp32": (0.93, 1.0),
    "compute.fp32_matrix": (0.4, 1.0),
    "classes": (0.15, 1.15),
    "classes.optimizer_loop": (0.35, 0.95),
    # Steps of eager BERT cannot tell dropout, softmax, batched products and fused updates apart: these ranges cost them
    # nothing. Steps of Megatron, which pass through them in other proportions, refute what lies below. Random numbers take
    # 30 to 50 integer operations an element; rows of softmax, products of attention and fused updates stream.
    "classes.optimizer": (0.75, 0.95),
    "classes.dropout": (0.5, 0.8),
    "classes.softmax": (0.85, 1.0),
    "classes.matmul": (0.75, 1.1),
    "factors.convolution": (0.6, 1.0),
    "factors.depthwise": (0.1, 0.5),
    "immaturity": (0.01, 0.3),
    "factors": (0.02, 1.0),
    "transposes": (0.05, 1.0),
    "unit_bandwidth": (parse("35 GB/s", "B/s"), parse("200 GB/s", "B/s")),
    "energy.tf32": (parse("0.6 pJ", "J"), parse("5 pJ", "J")),
    "energy.fp32": (parse("2 pJ", "J"), parse("16 pJ", "J")),
}
#: Where every fit begins and what holds it back: values of a study of 450 eager steps on 31 cards, and of datasheets and
#: kernel tables where that has none (fp32: watts over FLOP/s of P100, V100, Quadro RTX 8000, RTX 3090 on their datasheets are
#: 17, 14, 12 and 9 pJ on a 7 nm class process). Not the shipped constants, which have seen the rows that a fit may leave out.
STARTS: Final[dict[str, float]] = {
    "stream": 0.93, "compute.fp16": 0.87, "compute.tf32": 0.9, "compute.fp32": 0.95, "compute.fp32_matrix": 0.65,
    "classes.matmul": 0.86, "classes.convolution": 0.86, "classes.normalization": 0.83, "classes.softmax": 0.9,
    "classes.batch_normalization": 0.7, "classes.batch_normalization_narrow": 0.7,
    "classes.batch_normalization_last": 0.7,
    "classes.dropout": 0.55, "classes.pooling": 0.35, "classes.pooling_backward": 0.35,
    "classes.optimizer": 0.8, "classes.optimizer_loop": 0.62,
    "classes.depthwise": 1.0, "classes.depthwise_backward": 0.28, "factors.convolution": 1.0, "factors.misaligned": 0.4,
    "factors.misaligned_batched": 0.7, "factors.misaligned_convolution": 0.6, "factors.unpacked_groups": 0.3,
    "factors.depthwise": 0.31, "transposes.fp16": 0.71, "transposes.tf32": 0.22, "unit_bandwidth": parse("38 GB/s", "B/s"),
    "immaturity": 0.09, "energy.tf32": parse("3 pJ", "J"), "energy.fp32": parse("12 pJ", "J"),
}  # fmt: skip
#: How far beside them (in logarithm) a search begins.
NUDGE: Final = 0.15
#: Rounds of a search, and the relative change of its misfit at which it ends.
ROUNDS, CLOSE = 60, 1e-5
#: Classes that set the scale of the others, or of which no measured step has enough.
FIXED_CLASSES: Final = (
    "elementwise", "copy", "cast", "attention", "loss", "weights", "embedding", "gather", "sort", "scan", "resize", "reduction",
)  # fmt: skip
FREE_FACTORS: Final = (
    "convolution", "misaligned", "misaligned_batched", "depthwise", "misaligned_convolution", "unpacked_groups",
)  # fmt: skip


@dataclass(frozen=True)
class StepFit:
    """Fitted constants and the predictions' logarithmic residuals on the rows that were fitted."""

    constants: Constants
    residuals: Array


def free_paths(constants: Constants) -> list[str]:
    """Return the paths of the shared constants that are fitted.

    The energy of a byte is none: steps cannot tell it from the share of the bandwidth that kernels reach (from 80 to 300 pJ their
    errors differ by less than 0.2 points), but cards of more bandwidth per watt can.
    """
    paths = ["stream", "compute.fp16", "compute.tf32", "compute.fp32", "compute.fp32_matrix"]
    paths += [f"classes.{name}" for name in constants.classes if name not in FIXED_CLASSES]
    paths += [f"factors.{name}" for name in FREE_FACTORS]
    paths += ["transposes.fp16", "transposes.tf32"]
    return [
        *paths,
        "unit_bandwidth",
        "immaturity",
        "energy.tf32",
        "energy.fp32",
    ]


def fit_steps(table: StepTable, start: Constants, *, cards: bool = True) -> StepFit:
    """Fit to all rows of a table; `cards` adds deviations of single cards.

    Of `start` only what is not fitted counts; the rest begins at `STARTS` and is held back towards them, so that a fit depends on
    its rows alone: what they do not identify stays what physics and studies of single kernels say. (Begun at constants that
    had seen the rows which a fit leaves out, it would end as well by its rows, and 3 points better by the others: a leak.)
    """
    paths = free_paths(start)
    for path in paths:
        start = put(start, path, STARTS[path])
    architectures = _countable(table)
    headroom = dict(zip(map(str, table.architectures), table.headroom, strict=True))
    keys = [(name, part) for name in architectures for part in (*FORMATS, "stream")]
    first = np.log([get(start, path) for path in paths])
    low, high = np.log([_bounds(path) for path in paths]).T
    first = np.clip(first, low + 1e-9, high - 1e-9)

    def build(values: Array) -> Constants:
        shared = start
        for path, value in zip(paths, np.exp(values[: len(paths)]), strict=True):
            shared = put(shared, path, float(value))
        return shared.model_copy(
            update={"architectures": _deviations(keys, values[len(paths) :], _rates(shared), headroom), "gpus": {}}
        )

    def residuals(values: Array) -> Array:
        errors = np.log(predict(table, build(values)) / table.measured) / NOISE
        return np.concatenate(
            [errors, (values[: len(paths)] - first) / PRIOR["shared"], values[len(paths) :] / PRIOR["architecture"]]
        )

    # From the very start some constants lie on a bound, in whose corner the search stays: it begins a little beside.
    nudged = np.clip(first + np.random.default_rng(0).normal(0.0, NUDGE, len(first)), low + 1e-6, high - 1e-6)
    bounds = (np.append(low, [-1.0] * len(keys)), np.append(high, [1.0] * len(keys)))
    solution = _solve(residuals, np.append(nudged, np.zeros(len(keys))), bounds)
    constants = build(solution)
    if cards:
        constants = _fit_cards(table, constants)
    return StepFit(constants, np.log(predict(table, constants) / table.measured))


def _fit_cards(table: StepTable, constants: Constants) -> Constants:
    """Let each card with enough rows deviate from what its architecture says."""
    gpus: dict[str, Deviation] = {}
    for gpu in sorted(set(table.gpus)):
        rows = table.only(table.gpus == gpu)
        if len(rows.measured) < ROWS_FOR_CARD:
            continue
        base = constants.architectures.get(str(rows.architectures[0]), Deviation())
        parts = (*FORMATS, "stream")

        def build(values: Array, base: Deviation = base, room: float = float(rows.headroom[0])) -> Deviation:
            factors = np.exp(values)
            compute = {
                name: _round(_possible(base.compute.get(name, 1.0) * factors[i], constants.compute[name], name, room))
                for i, name in enumerate(FORMATS)
            }
            stream = _round(_possible(base.stream * factors[-1], constants.stream, "stream", room))
            return Deviation(compute=_spread(compute), stream=stream, source="its own steps")

        def residuals(values: Array, gpu: str = gpu, rows: StepTable = rows) -> Array:
            own = constants.model_copy(update={"gpus": {gpu: build(values)}})
            errors = np.log(predict(rows, own) / rows.measured) / NOISE
            return np.concatenate([errors, values / PRIOR["gpu"]])

        size = len(parts)
        gpus[str(gpu)] = build(_solve(residuals, np.zeros(size), (np.full(size, -0.7), np.full(size, 0.7))))
    return constants.model_copy(update={"gpus": gpus})


def _solve(residuals: Callable[[Array], Array], first: Array, bounds: tuple[Array, Array]) -> Array:
    solution = least_squares(
        residuals, first, bounds=bounds, loss="soft_l1", f_scale=1.5, max_nfev=ROUNDS, diff_step=1e-3, ftol=CLOSE
    )
    values: Array = solution.x
    return values


def _countable(table: StepTable) -> list[str]:
    """Return the architectures of which enough cards are in the table."""
    cards: dict[str, set[str]] = {}
    for architecture, gpu in zip(table.architectures, table.gpus, strict=True):
        cards.setdefault(str(architecture), set()).add(str(gpu))
    return sorted(name for name, members in cards.items() if len(members) >= CARDS_FOR_ARCHITECTURE)


def _deviations(
    keys: list[tuple[str, str]], values: Array, shared: dict[str, float], headroom: dict[str, float]
) -> dict[str, Deviation]:
    by_card: dict[str, dict[str, float]] = {}
    for (name, part), value in zip(keys, np.exp(values), strict=True):
        by_card.setdefault(name, {})[part] = _possible(float(value), shared[part], part, headroom[name])
    return {
        name: Deviation(
            compute=_spread({part: value for part, value in parts.items() if part != "stream"}),
            stream=parts["stream"],
            source="steps measured on three cards or more",
        )
        for name, parts in by_card.items()
    }


def _rates(constants: Constants) -> dict[str, float]:
    return constants.compute | {"stream": constants.stream}


def _possible(factor: float, share: float, part: str, headroom: float) -> float:
    """Return the factor, held so that no more is reached than the datasheet's rate at the clocks that parts run at."""
    return min(factor, (1.0 if part == "stream" else (best() if part in MATRIX else 1.0) * headroom) / share)


@cache
def best() -> float:
    """Return the share of the peak at full clock that the best measured products on matrix units reach."""
    table, _ = load_kernels(measured_file())
    return best_product(table)


def _spread(compute: dict[str, float]) -> dict[str, float]:
    """Give bf16 what fp16 has: the same units at the same rate."""
    return compute | {"bf16": compute["fp16"]}


def _round(value: Any) -> float:
    return float(np.clip(value, 1e-3, 4.0))


def _bounds(path: str) -> tuple[float, float]:
    return BOUNDS.get(path) or BOUNDS[path.split(".", maxsplit=1)[0]]


def get(constants: Constants, path: str) -> float:
    """Return the constant at a path such as ``classes.softmax``."""
    head, _, rest = path.partition(".")
    part = getattr(constants, head)
    if not rest:
        return float(part)
    return float(part[rest] if isinstance(part, dict) else getattr(part, rest))


def put(constants: Constants, path: str, value: float) -> Constants:
    """Return the constants with one of them replaced; fp16 and bf16 go together."""
    head, _, rest = path.partition(".")
    if not rest:
        return constants.model_copy(update={head: value})
    part = getattr(constants, head)
    if isinstance(part, dict):
        twin = {"bf16": value} if rest == "fp16" else {}
        return constants.model_copy(update={head: {**part, rest: value, **twin}})
    return constants.model_copy(update={head: part.model_copy(update={rest: value})})


def usable(cases: Sequence[Case], table: StepTable) -> Any:
    """Return which steps constants are fitted to, as a mask: all that may be, less those that say nothing.

    Left out are steps that the host holds up (they measure a host).
    """
    kept = np.array([case.fits for case in cases], dtype=bool)
    return kept & (table.host < HOST_SHARE * table.measured)
