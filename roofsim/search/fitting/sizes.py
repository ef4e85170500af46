"""Search the largest batch, length or image that fits."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError, did_you_mean
from roofsim.search.fitting.search import Certificate, largest

if TYPE_CHECKING:
    from roofsim.search.fitting.bench import Workbench

#: Where a search ends although more would fit.
LIMITS: Final = {
    "micro_batch_size": 2**20,
    "batch_size": 2**20,
    "sequence_length": 2**24,
    "context_length": 2**24,
    "image_size": 2**14,
}
WORDS: Final = ("micro-batch-size", "batch-size", "sequence-length", "image-size", "context-length", "model")
#: The search for images begins at the model's own size, halved up to so many times where it takes such images.
_HALVINGS: Final = 4
#: Steps of an image's side that are tried: 1, then what patches and strides divide by.
_IMAGE_STEPS: Final = (1, 2, 4, 8, 14, 16, 32, 64, 112, 128, 224, 256)


def checked_word(word: str) -> str:
    """Return the key that a word of ``--largest`` means.

    Raises
    ------
    SpecError
        With near matches.
    """
    normal = word.strip().lower().replace("_", "-")
    if normal not in WORDS:
        raise SpecError(Problem(f"cannot find the largest {word[:60]!r}", Place("--largest"), "", _hint(normal)))
    return normal.replace("-", "_")


def _hint(word: str) -> str:
    close = did_you_mean(word, WORDS)
    return close if close.startswith("Did") else f"One of {', '.join(WORDS)}."


def largest_size(bench: Workbench, key: str) -> tuple[Certificate, int | None]:
    """Return the largest value of a size that fits, and the largest whose whole 80 % interval of memory does.

    A global batch that is stated goes along with the micro batch: the number of micro batches stays.

    Raises
    ------
    SpecError
        When the phase or the model does not use the size.
    """
    resolved = bench.resolved({})
    workload = resolved.workload
    if key == "batch_size":
        key = "micro_batch_size"
    _refuse_foreign(key, workload.phase, resolved.model.sample_unit)

    def changes(value: int) -> dict[str, Any]:
        return bench.with_batch(value) if key == "micro_batch_size" else {f"workload.{key}": value}

    step, lowest = 1, 1
    if key == "sequence_length":
        step = resolved.parallel.context * (resolved.parallel.tensor if resolved.parallel.sequence else 1)
    if key == "image_size":
        step, lowest = _image_grid(bench, workload.image_size or 1)
    capacity = bench.attempt({}).capacity

    def taken(value: int, *, at_most: bool = False) -> float:
        attempt = bench.held(changes(value))
        taken = attempt.interval[1] if at_most else attempt.memory
        return taken + (capacity - attempt.capacity)  # a server's room depends on what is not cache

    best = largest(taken, capacity, step=step, lowest=lowest, limit=LIMITS[key])
    if best.value is None:
        return best, None
    safe = largest(partial(taken, at_most=True), capacity, step=step, lowest=lowest, limit=best.value)
    return best, safe.value


def _refuse_foreign(key: str, phase: str, unit: str) -> None:
    """Refuse a size that the phase or the model has no use for."""
    images = unit == "images"
    wrong = {
        "sequence_length": images or phase not in ("train", "forward"),
        "image_size": not images,
        "context_length": phase != "decode",
    }
    if wrong.get(key):
        word = key.replace("_", "-")
        able = [name for name in WORDS[:-1] if not wrong.get(name.replace("-", "_")) and name != "batch-size"]
        what = "an image model" if images else f"phase {phase} of a token model"
        raise SpecError(
            Problem(f"{what} has no {word} to search", Place("--largest"), "", f"Search {' or '.join(able)}.")
        )


def _image_grid(bench: Workbench, own: int) -> tuple[int, int]:
    """Return the step between sizes of images that the model takes, and a small size that it takes."""

    def taken(size: int) -> bool:
        return bench.attempted({"workload.image_size": size}) is not None

    for step in _IMAGE_STEPS:
        grid = -(-own // step) * step
        if taken(grid) and taken(grid + step):
            smaller = [grid // 2**halvings // step * step for halvings in range(_HALVINGS, 0, -1)]
            return step, next((size for size in smaller if size > 0 and taken(size)), grid)
    raise SpecError(Problem(f"this model only takes images of {own} pixels", Place("--largest")))
