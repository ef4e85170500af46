"""Read a size such as ``100B`` as a model: a decoder of GPT-3's shape with about so many parameters."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import Any, Final

from roofsim.errors import Problem, SpecError
from roofsim.records import dataclass

#: Number of parameters of the models of arXiv 2005.14165, table 2.1 (as the catalog counts them), with their layers,
#: width and tokens per optimizer step.
SHAPES: Final = (
    (125_950_464, 12, 768, 500_000),
    (356_837_376, 24, 1024, 500_000),
    (761_748_480, 24, 1536, 500_000),
    (1_317_654_528, 24, 2048, 1_000_000),
    (2_653_967_360, 32, 2560, 1_000_000),
    (6_662_266_880, 32, 4096, 2_000_000),
    (12_858_214_400, 40, 5120, 2_000_000),
    (174_615_846_912, 96, 12288, 3_200_000),
)
SOURCE: Final = "arXiv 2005.14165, table 2.1, interpolated; vocabulary padded to 51,200 as in Megatron-LM"
VOCABULARY: Final = 51_200
POSITIONS: Final = 2_048
HEAD_SIZE: Final = 128
#: Widths are multiples of so many, from so wide on: heads then divide over a node's GPUs.
_GRANULES: Final = ((4096, 1024), (1024, 256), (0, HEAD_SIZE))
#: From so many layers on their number is even.
_EVEN_FROM: Final = 11.5
#: The smallest and the largest size that this reads as a model of this shape.
_SMALLEST: Final = 50_000_000
_LARGEST: Final = 100_000_000_000_000

_SIZE: Final = re.compile(r"(\d{1,6}(?:\.\d{1,4})?)([mbt])", re.IGNORECASE)
_LETTERS: Final = {"m": 6, "b": 9, "t": 12}


@dataclass(frozen=True, kw_only=True)
class Sized:
    """A decoder that a size stands for."""

    asked: float
    num_layers: int
    hidden_size: int
    tokens_per_step: float
    """Tokens of an optimizer step, as GPT-3 models of this size were trained with."""

    @property
    def parameters(self) -> int:
        """Number of parameters of the shape."""
        return _parameters(self.num_layers, self.hidden_size)

    def mapping(self, name: str) -> dict[str, Any]:
        """Return the model as a file of the catalog would state it."""
        return {
            "family": "decoder",
            "name": name,
            "source": SOURCE,
            "num_layers": self.num_layers,
            "hidden_size": self.hidden_size,
            "num_attention_heads": self.hidden_size // HEAD_SIZE,
            "vocab_size": VOCABULARY,
            "max_sequence_length": POSITIONS,
            "dropout": 0.1,
            "fused_query_key_value": True,
        }

    def sentence(self) -> str:
        """Say what the size stands for."""
        return (
            f"a decoder of GPT-3's shape ({SOURCE}): {self.num_layers} layers of width {self.hidden_size:,}, "
            f"{self.hidden_size // HEAD_SIZE} heads of {HEAD_SIZE}, {self.parameters:,} parameters"
        )


def sized(text: object) -> Sized | None:
    """Return what a size stands for; None for any other text.

    Raises
    ------
    SpecError
        For a size at which the shape makes no sense.

    Examples
    --------
    >>> shape = sized("175B")
    >>> shape.num_layers, shape.hidden_size
    (96, 12288)
    >>> sized("gpt3-175b") is None
    True
    """
    match = _SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        return None
    wanted = float(match.group(1)) * 10.0 ** _LETTERS[match.group(2).lower()]
    if not _SMALLEST <= wanted <= _LARGEST:
        message = f"{text} parameters: sizes from 50M to 100T stand for a decoder of GPT-3's shape"
        raise SpecError(Problem(message, path="model", hint="State the model itself (family, num_layers ...)."))
    width = _width(wanted)
    per_layer = _parameters(1, width) - _parameters(0, width)
    layers = (wanted - _parameters(0, width)) / per_layer
    whole = 2 * round(layers / 2.0) if layers > _EVEN_FROM else max(1, round(layers))
    return Sized(asked=wanted, num_layers=whole, hidden_size=width, tokens_per_step=_interpolated(wanted, 3))


def _parameters(layers: int, width: int) -> int:
    """Count a GPT-2 decoder: 12 h^2 + 13 h a layer, embeddings of words and positions, the last norm."""
    return layers * (12 * width * width + 13 * width) + (VOCABULARY + POSITIONS + 2) * width


def _width(wanted: float) -> int:
    width = _interpolated(wanted, 2)
    granule = next(granule for least, granule in _GRANULES if width >= least)
    return max(granule, granule * round(width / granule))


def _interpolated(wanted: float, column: int) -> float:
    """Interpolate a column of the table between sizes, and extrapolate beyond them, on logarithmic scales."""
    rows = SHAPES
    pair = next((pair for pair in pairwise(rows) if wanted <= pair[1][0]), (rows[-2], rows[-1]))
    (x0, y0), (x1, y1) = ((math.log(row[0]), math.log(row[column])) for row in pair)
    return math.exp(y0 + (math.log(wanted) - x0) * (y1 - y0) / (x1 - x0))
