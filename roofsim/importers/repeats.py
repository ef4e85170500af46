"""Write the layers of a configuration as a list in which what repeats is a repeat."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.importers.decoders import Mapping
    from roofsim.importers.fields import Fields

Steps = list[Any]
#: Layers beyond which a file is no model's: each that differs from the one before is written out.
_MOST_LAYERS: Final = 512
#: Layers of a cycle beyond which none is looked for: those of published models have eight at most.
_LONGEST_CYCLE: Final = 32


def few_layers(c: Fields, key: str = "num_hidden_layers") -> int:
    """Return the number of layers, each of which is looked at.

    Raises
    ------
    SpecError
        When it is more than any model has.
    """
    layers: int = c.whole(key)
    if layers > _MOST_LAYERS:
        c.fail(key, f"expected at most {_MOST_LAYERS}; got {layers}")
    return layers


def stack(kinds: Steps, build: Callable[[Any], Steps], alone: Callable[[Any], bool] = lambda _: False) -> Steps:
    """Return the steps of all layers: cycles of layers that are alike as repeats.

    Parameters
    ----------
    kinds
        What tells layers apart, of each layer.
    build
        What makes the steps of a layer of a kind.
    alone
        Whether a layer of a kind is no repeat where it stands by itself.
    """
    made: Steps = []
    while kinds:
        length, times = _cycle(kinds)
        cycle, kinds = kinds[:length], kinds[length * times :]
        inner = [_run(kind, len(list(alike)), build, alone) for kind, alike in groupby(cycle)]
        if times == 1:
            made += inner
        elif len(inner) == 1:
            made.append({"repeat": times, "layers": build(cycle[0])})
        else:
            made.append({"repeat": times, "layers": inner})
    return made


def _run(kind: Any, count: int, build: Callable[[Any], Steps], alone: Callable[[Any], bool]) -> Mapping:
    if count == 1 and alone(kind):
        return {"name": "layer", "layers": build(kind)}
    return {"repeat": count, "layers": build(kind)}


def _cycle(kinds: Steps) -> tuple[int, int]:
    """Return the cycle that a list begins with, its length and how often it runs: the one that leaves out most layers.

    >>> _cycle([("a",), ("a",), ("b",), ("a",), ("a",), ("b",), ("c",)])
    (3, 2)
    """
    best = (1, 1)
    for length in range(1, min(len(kinds) // 2, _LONGEST_CYCLE) + 1):
        times = 1
        while kinds[times * length : (times + 1) * length] == kinds[:length]:
            times += 1
        if length * (times - 1) > best[0] * (best[1] - 1):
            best = (length, times)
    return best
