"""Read typed values out of another tool's configuration; every complaint names the file and the key."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn

from roofsim.errors import Place, Problem, SpecError, did_you_mean
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Marks a key without a default: it must be there.
REQUIRED: Final = object()

#: The activation functions of the transformers library -> ours.
ACTIVATIONS: Final[dict[str, str]] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_new",
    "gelu_fast": "gelu_new",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "silu": "silu",
    "swish": "silu",
    "relu": "relu",
    "relu2": "relu_squared",
    "xielu": "xielu",
}


@dataclass(frozen=True)
class Fields:
    """The keys of one configuration; `path` is where they stand in the file."""

    data: Mapping[str, Any]
    where: str
    path: str = ""

    def fail(self, key: str, message: str, hint: str = "") -> NoReturn:
        """Raise `SpecError` for a key."""
        raise SpecError(Problem(message, Place(self.where), f"{self.path}{key}", hint))

    def has(self, key: str) -> bool:
        """Tell whether a key is there and not null."""
        return self.data.get(key) is not None

    def _get(self, key: str, default: Any) -> Any:
        value = self.data.get(key)
        if value is None and default is REQUIRED:
            self.fail(key, "is null; expected a value" if key in self.data else "required key is missing")
        return default if value is None else value

    def whole(self, *keys: str, default: Any = REQUIRED, least: int = 1) -> Any:
        """Return a whole number under the first of some spellings of its key that is there."""
        key = next((key for key in keys if self.has(key)), keys[0])
        value = self._get(key, default)
        if value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(key, f"expected a whole number; got {_shown(value)}")
        if value < least:
            self.fail(key, f"expected a whole number of at least {least}; got {value}")
        return value

    def number(self, key: str, default: float) -> float:
        """Return a number."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
            self.fail(key, f"expected a number; got {_shown(value)}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self.fail(key, f"expected a finite number; got {_shown(value)}")
        return number

    def rate(self, key: str, default: float = 0.0) -> float:
        """Return a probability of dropping, below one."""
        value = self.number(key, default)
        if not 0.0 <= value < 1.0:
            self.fail(key, f"expected a rate from 0 to below 1; got {value:g}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self._get(key, default)
        if not isinstance(value, bool):
            self.fail(key, f"expected true or false; got {_shown(value)}")
        return value

    def word(self, key: str, default: Any = REQUIRED) -> str:
        """Return a text."""
        value = self._get(key, default)
        if not isinstance(value, str):
            self.fail(key, f"expected a text; got {_shown(value)}")
        return value

    def wholes(self, key: str, default: Any = REQUIRED) -> list[int]:
        """Return a list of whole numbers."""
        value = self._get(key, default)
        if not isinstance(value, list) or any(isinstance(item, bool) or not isinstance(item, int) for item in value):
            self.fail(key, f"expected a list of whole numbers; got {_shown(value)}")
        return value

    def words(self, key: str) -> list[str] | None:
        """Return a list of texts, or None where the key is absent."""
        value = self.data.get(key)
        if value is not None and (not isinstance(value, list) or any(not isinstance(item, str) for item in value)):
            self.fail(key, f"expected a list of texts; got {_shown(value)}")
        return value

    def part(self, key: str) -> Fields:
        """Return the mapping under a key, empty where it is absent."""
        value = self.data.get(key)
        if value is None:
            value = {}
        if not isinstance(value, dict):
            self.fail(key, f"expected an object; got {_shown(value)}")
        return Fields(value, self.where, f"{self.path}{key}.")

    def only(self, key: str, *supported: Any) -> None:
        """Refuse a value that changes the structure in a way that roofsim does not build; absent is the first one."""
        value = self.data.get(key)
        if value is not None and not any(value == option and type(value) is type(option) for option in supported):
            options = " or ".join(_shown(option) for option in supported if option is not None) or "null"
            self.fail(key, f"{_shown(value)} changes the structure in a way that is not supported; expected {options}")

    def activation(self, *keys: str, default: str) -> str:
        """Return our name of an activation function."""
        key = next((key for key in keys if self.has(key)), keys[0])
        name = self.word(key, default)
        if name not in ACTIVATIONS:
            self.fail(key, f"unknown activation function {name!r}", did_you_mean(name, ACTIVATIONS))
        return ACTIVATIONS[name]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
