"""Say which tensors of a llama.cpp file get more bits than its name promises.

The rules are those of ``llama_tensor_get_type`` (ggml-org/llama.cpp, src/llama-quant.cpp) without an importance matrix.
Where they depend on the number of the layer, a tensor has the share of the layers that each encoding gets.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from roofsim.numeric import exactly
from roofsim.points import anywhere, everywhere, like
from roofsim.spec.precision.encodings import EMBEDDING, ENCODINGS, HEAD, WeightPosition
from roofsim.traced.points import as_array

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.numeric import Real

#: Query heads per key-value head from which a value projection is small enough to get more bits.
SMALL_VALUES: Final = 4.0
#: Layers and grouping of "the 70B model", whose value projections get five bits.
LAYERS_OF_70B, GROUPS_OF_70B = 80.0, 8.0
#: Experts of the models whose attention gets more bits.
EIGHT_EXPERTS: Final = 8.0
_ATTENTION_OF_EIGHT: Final = ("q2_k", "q3_k_s", "q3_k_m", "q4_k_s", "q4_k_m", "iq4_nl", "iq4_xs")


def mixture(name: str, base: str, place: WeightPosition) -> dict[str, Real]:
    """Return the encodings of a tensor and the share of the layers that each has.

    >>> mixture("q4_k_m", "q4_k", WeightPosition(part="linear", role="down", layers=32.0))
    {'q6_k': 0.5, 'q4_k': 0.5}
    """
    if place.part == HEAD:
        encodings = _one(_of_head(base, place))
    elif place.part == EMBEDDING:
        encodings = _one(base)
    elif place.role in ("value", "query_key_value"):
        encodings = _of_values(name, base, place)
    elif place.role == "key":
        encodings = _one("q8_0" if _eight(place) else base)
    elif place.role == "down":
        encodings = _of_down(name, base, place)
    elif place.role == "attention_output":
        encodings = _one(_of_output(name, base, place))
    else:
        encodings = _one(base)
    return _fitted(encodings, place)


def _fitted(encodings: dict[str, Real], place: WeightPosition) -> dict[str, Real]:
    """Replace encodings whose blocks do not divide the rows."""
    fitted: dict[str, Real] = {}
    for name, share in encodings.items():
        encoding = ENCODINGS[name]
        odd = anywhere(place.columns % encoding.block != 0.0)
        taken = encoding.fallback if odd and encoding.fallback is not None else name
        fitted[taken] = fitted.get(taken, 0.0) + share
    return fitted


def _one(name: str) -> dict[str, Real]:
    return {name: 1.0}


def _split(more: str, base: str, share: Real) -> dict[str, Real]:
    if exactly(share, 0.0) or exactly(share, 1.0):
        return _one(more if share else base)
    return {more: share, base: 1.0 - share}


def _eight(place: WeightPosition) -> bool:
    return everywhere(place.experts == EIGHT_EXPERTS)


def _small(place: WeightPosition) -> bool:
    return everywhere(place.groups >= SMALL_VALUES)


def _of_head(base: str, place: WeightPosition) -> str:
    odd = anywhere(place.columns % ENCODINGS[base].block != 0.0)
    return "q8_0" if odd or base in ("q8_0", "mxfp4") else "q6_k"


def _of_values(name: str, base: str, place: WeightPosition) -> dict[str, Real]:
    if _eight(place):
        return _one("q8_0")
    if place.role == "query_key_value":
        merged = {"q3_k_m": "q4_k", "q3_k_l": "q4_k", "q4_k_m": "q5_k", "q5_k_m": "q6_k"}
        return _one(merged.get(name, base))
    if name == "q2_k":
        encodings = _one("q4_k" if _small(place) else "q3_k")
    elif name == "q3_k_m":
        encodings = _split("q5_k", "q4_k", _share(place.layers, _first_two))
    elif name == "q3_k_l":
        encodings = _one("q5_k")
    elif name in ("iq4_nl", "iq4_xs"):
        encodings = _one("q5_k" if _small(place) else base)
    elif name in ("q4_k_m", "q5_k_m"):
        encodings = _split("q6_k", base, _share(place.layers, more_bits))
    elif name == "q4_k_s":
        encodings = _split("q5_k", base, _share(place.layers, _first_four))
    else:
        encodings = _one(base)
    return _of_70b(encodings, place)


def _of_70b(encodings: dict[str, Real], place: WeightPosition) -> dict[str, Real]:
    large = everywhere(place.layers == LAYERS_OF_70B) and everywhere(place.groups == GROUPS_OF_70B)
    if not large:
        return encodings
    raised: dict[str, Real] = {}
    for name, share in encodings.items():
        taken = "q5_k" if name in ("q3_k", "q4_k") else name
        raised[taken] = raised.get(taken, 0.0) + share
    return raised


def _of_down(name: str, base: str, place: WeightPosition) -> dict[str, Real]:
    if name == "q2_k":
        return _one("q3_k")
    if name == "q3_k_m":
        return _split("q5_k", "q4_k", _share(place.layers, _first_sixteenth))
    if name == "q3_k_l":
        return _one("q5_k")
    if name in ("q4_k_m", "q5_k_m"):
        return _split("q6_k", base, _share(place.layers, more_bits))
    if name in ("q4_k_s", "iq4_nl", "iq4_xs"):
        return _split("q5_k", base, _share(place.layers, _first_eighth))
    return _one(base)


def _of_output(name: str, base: str, place: WeightPosition) -> str:
    if _eight(place):
        return "q5_k" if name in _ATTENTION_OF_EIGHT else base
    return {"q2_k": "q3_k", "q3_k_m": "q4_k", "q3_k_l": "q5_k"}.get(name, base)


# -- which layers ---------------------------------------------------------------------------------------------------


def more_bits(layer: int, layers: int) -> bool:
    """Tell whether a layer of a ``_m`` file gets more bits: the first and last eighth, every third between them."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def _first_two(layer: int, layers: int) -> bool:
    del layers
    return layer < 2


def _first_four(layer: int, layers: int) -> bool:
    del layers
    return layer < 4


def _first_sixteenth(layer: int, layers: int) -> bool:
    return layer < layers // 16


def _first_eighth(layer: int, layers: int) -> bool:
    return layer < layers // 8


def _share(layers: Real, chosen: Callable[[int, int], bool]) -> Real:
    """Return the share of the layers that a rule chooses; an array of numbers of layers gives an array."""
    if isinstance(layers, float):
        return _share_of(round(layers), chosen)
    shares = [_share_of(round(float(number)), chosen) for number in np.ravel(layers)]
    return cast("Real", like(as_array(shares).reshape(np.shape(layers)), layers))


@lru_cache(maxsize=256)
def _share_of(layers: int, chosen: Callable[[int, int], bool]) -> float:
    return sum(chosen(layer, layers) for layer in range(layers)) / max(layers, 1)
