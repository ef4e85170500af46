"""Know the values of tensors that are the same everywhere, as made by `torch.ones`: what a program asks of them needs no data."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

#: Ops that make a tensor of one value: the value, or the place of the argument that says it.
FILLED = {
    "ones": 1, "ones_like": 1, "new_ones": 1, "zeros": 0, "zeros_like": 0, "new_zeros": 0,
    "full": "fill_value", "full_like": "fill_value", "new_full": "fill_value", "scalar_tensor": "s",
}  # fmt: skip
#: Ops that show, pick or move elements of the first tensor that they read.
MOVED = frozenset({
    "view", "_unsafe_view", "reshape", "alias", "detach", "expand", "slice", "select", "squeeze", "unsqueeze", "permute",
    "transpose", "t", "clone", "_to_copy", "index", "index_select", "gather", "narrow", "contiguous", "lift_fresh",
})  # fmt: skip
#: Comparisons of each element with a number.
COMPARED = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
#: Ops whose result over elements of one value is that value.
KEPT = frozenset({"all", "any", "amax", "amin", "max", "min", "mean"})


class KnownValues(TorchDispatchMode):
    """Answer what a program asks of a tensor whose elements all have one value that its code states."""

    def __init__(self) -> None:
        super().__init__()
        self.values: Any = WeakIdKeyDictionary()

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an op, or answer it."""
        kwargs = kwargs or {}
        name = op._overloadpacket.__name__
        if name == "_local_scalar_dense" and args[0] in self.values:
            return self.values[args[0]]
        out = op(*args, **kwargs)
        given = dict(zip((argument.name for argument in op._schema.arguments), args, strict=False)) | kwargs
        self._forget_written(op, given)
        value = self._value(name, given, args)
        if value is not None and isinstance(out, torch.Tensor):
            self.values[out] = value
        return out

    def _forget_written(self, op: Any, given: dict[str, Any]) -> None:
        """Forget what shares the storage of a tensor that an op writes into."""
        for argument in op._schema.arguments:
            target = given.get(argument.name)
            if argument.alias_info is not None and argument.alias_info.is_write and isinstance(target, torch.Tensor):
                storage = target.untyped_storage()._cdata
                for known in [each for each in self.values if each.untyped_storage()._cdata == storage]:
                    del self.values[known]

    def _value(self, name: str, given: dict[str, Any], args: Any) -> Any:
        """Return the value of each element of a result; None: it is not known."""
        if name in FILLED:
            stated = FILLED[name]
            value = given.get(stated) if isinstance(stated, str) else stated
            return value if isinstance(value, (bool, int, float)) else None
        source = args[0] if args else None
        known = isinstance(source, torch.Tensor) and source in self.values
        return self._of_known(name, given, source, self.values[source]) if known else None

    def _of_known(self, name: str, given: dict[str, Any], source: Any, value: Any) -> Any:
        """Return the value of each element of what an op makes of a tensor of one value; None: it is not known."""
        if name in MOVED or name in KEPT:
            return _in_type(value, given.get("dtype"))
        if name in COMPARED and isinstance(given.get("other"), (bool, int, float)):
            return COMPARED[name](value, given["other"])
        if name in ("logical_not", "bitwise_not") and isinstance(value, bool):
            return not value
        return value * source.numel() if name == "sum" and given.get("dim") is None else None


def _in_type(value: Any, dtype: Any) -> Any:
    """Return a number as a tensor of a type has it."""
    if dtype is torch.bool:
        return bool(value)
    return int(value) if dtype in (torch.int32, torch.int64) else value
