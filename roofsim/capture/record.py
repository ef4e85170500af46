"""Record what a module computes: ATen ops over fake tensors, as a GPU would run them, without one."""

from __future__ import annotations

import contextlib
import math
import sys
from typing import Any

import torch
import torch.nn.functional
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from roofsim.capture.values import KnownValues

#: Ops that ask for nothing of a device.
SILENT = frozenset({"prim.device", "aten.detach", "aten._version", "aten.sym_size", "aten.is_same_size"})
#: A number beyond which an argument says "to the end".
MOST = 2**53
#: Wide sizes of heads that flash attention has kernels for.
FLASH_HEAD = 256


class Recording:
    """The ops of one pass: tensors by number, ops in order, what autograd kept."""

    def __init__(self) -> None:
        self.tensors: list[dict[str, Any]] = []
        self.ops: list[dict[str, Any]] = []
        self.known: dict[Any, int] = {}
        self.first: dict[int, int] = {}
        self.live: dict[int, Any] = {}
        self.dead: list[Any] = []
        self.died: dict[int, int] = {}
        self.saved: list[int] = []
        self.backward: dict[str, int] = {}
        self.flops = [0, 0]
        self.phase = 0
        self.outputs: list[int] = []
        self.loss: int | None = None
        self.saved_bytes = 0

    def key(self, tensor: Any) -> Any:
        """Return what tells a tensor's bytes apart: storage, place in it, form."""
        storage = tensor.untyped_storage()
        if storage._cdata not in self.live and storage._cdata not in self.first:
            self.live[storage._cdata] = StorageWeakRef(
                storage
            )  # also keeps the number from being given to another storage
        return storage._cdata, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype

    def add(
        self,
        tensor: Any,
        role: str = "activation",
        name: str | None = None,
        base: int | None = None,
        *,
        trained: bool = False,
    ) -> int:
        """Give a tensor a number and return it; `base` is that of the one whose storage it shows."""
        key = self.key(tensor)
        number = len(self.tensors)
        entry: dict[str, Any] = {
            "shape": [int(size) for size in tensor.shape],
            "dtype": str(tensor.dtype).removeprefix("torch."),
        }
        if role != "activation":
            entry["role"] = role
        if name is not None:
            entry["name"] = name
        if base is not None:
            entry["base"] = base
        if trained:
            entry["trained"] = True
        self.tensors.append(entry)
        self.known[key] = number
        self.first.setdefault(key[0], number)
        return number

    def number(self, tensor: Any) -> int:
        """Return the number of a tensor that an op reads; of one that was never seen, a constant's."""
        key = self.key(tensor)
        if key in self.known:
            return self.known[key]
        base = self.first.get(key[0])
        return self.add(tensor, "activation" if base is not None else "buffer", None, base)

    def give_out(self, tensors: list[Any]) -> None:
        """Note what the module returns; of one that is called several times, what it returns last."""
        self.outputs = [self.number(tensor) for tensor in tensors]

    def bury(self) -> None:
        """Note which storages nobody holds any more, at the op that ran last."""
        for storage in [storage for storage, reference in self.live.items() if reference.expired()]:
            self.died[storage] = len(self.ops) - 1
            self.dead.append(self.live.pop(storage))

    def hold(self) -> None:
        """Write onto ops what the program's code held up to them, although no op read it any more."""
        last: dict[int, int] = {}
        for at, op in enumerate(self.ops):
            for number in (*op["reads"], *op["makes"]):
                last[root_of(self, number)] = at
        kept = {root_of(self, number) for number in self.saved}
        end = dict.fromkeys(self.live, len(self.ops) - 1)
        for storage, at in (self.died | end).items():
            root = self.first[storage]
            if root in last and root not in kept and "role" not in self.tensors[root] and at > last[root]:
                self.ops[at].setdefault("holds", []).append(root)


class OpMode(TorchDispatchMode):
    """Write every op that reaches the device onto a tape."""

    def __init__(self, tape: Recording, places: ModulePaths) -> None:
        super().__init__()
        self.tape = tape
        self.places = places

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an op on fake tensors and note it."""
        kwargs = kwargs or {}
        out = op(*args, **kwargs)
        name = str(op._overloadpacket)
        if not self.tape.phase:
            self.tape.bury()
        if name in SILENT:
            return out
        self._count(op, args, kwargs, out)
        if self.tape.phase:
            self.tape.backward[name] = self.tape.backward.get(name, 0) + 1
        else:
            self._note(op, name, args, kwargs, out)
        return out

    def _count(self, op: Any, args: Any, kwargs: Any, out: Any) -> None:
        count = flop_registry.get(op._overloadpacket)
        if count is not None:
            self.tape.flops[self.tape.phase] += int(count(*args, **kwargs, out_val=out))

    def _note(self, op: Any, name: str, args: Any, kwargs: Any, out: Any) -> None:
        tape, inputs, attributes, same = self.tape, list[int](), dict[str, Any](), dict[int, int]()
        names = [argument.name for argument in op._schema.arguments]
        given = dict(zip(names, args, strict=False)) | kwargs
        for argument, value in given.items():
            for tensor in tensors_in(value):
                same[id(tensor)] = tape.number(tensor)
                inputs.append(same[id(tensor)])
            plain = plain_of(value)
            if plain is not None:
                attributes[argument] = plain
        written = {
            id(t)
            for arg in op._schema.arguments
            if arg.alias_info is not None and arg.alias_info.is_write
            for t in tensors_in(given.get(arg.name))
        }
        results = []
        for tensor in tensors_in(out):
            if id(tensor) in written:
                results.append(tape.add(tensor, base=same[id(tensor)]))
                continue
            storage = tape.key(tensor)[0]
            shown = next((number for number in inputs if tape.first.get(storage) == root_of(tape, number)), None)
            results.append(tape.add(tensor, base=shown if shown is not None else tape.first.get(storage)))
        written_only = list(same.values()) if not results and written else []
        module, line = self.places()
        entry: dict[str, Any] = {"op": name, "reads": inputs, "makes": results, "module": module, "line": line}
        if attributes:
            entry["given"] = attributes
        if written_only:
            entry["writes"] = True
        tape.ops.append(entry)


def root_of(tape: Recording, number: int) -> int:
    """Return the tensor that owns the storage of another."""
    while "base" in tape.tensors[number]:
        number = tape.tensors[number]["base"]
    return number


def tensors_in(value: Any) -> list[Any]:
    """Return the tensors in a value of an op's arguments or results, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for each in value for tensor in tensors_in(each)]
    return []


def plain_of(value: Any) -> Any:
    """Return a number, a word, or a list of numbers as JSON has them; None for anything else."""
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if abs(value) < MOST else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (torch.dtype, torch.memory_format)):
        return str(value).removeprefix("torch.")
    if isinstance(value, (list, tuple)) and value and all(isinstance(each, int) and abs(each) < MOST for each in value):
        return list(value)
    return None


#: PyTorch's own.
_ATTENTION = torch.nn.functional.scaled_dot_product_attention


class AsOnGpu(TorchFunctionMode):
    """Take the kernels of attention that PyTorch takes on a GPU, which it can't choose without one.

    Modes are off inside of functions that PyTorch hands to them as a whole (`nn.MultiheadAttention`'s), so the name that these call
    stands for `attention` as well.
    """

    def __enter__(self) -> Any:
        """Begin to answer attention."""
        torch.nn.functional.scaled_dot_product_attention = attention
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        """Give the name back."""
        torch.nn.functional.scaled_dot_product_attention = _ATTENTION
        super().__exit__(*raised)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer attention; leave everything else as it is."""
        if function is _ATTENTION:
            return attention(*args, **(kwargs or {}))
        return function(*args, **(kwargs or {}))


def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,  # noqa: ARG001 (as PyTorch has it)
) -> Any:
    """Return what `scaled_dot_product_attention` does, by flash attention or the memory-efficient kernel.

    Flash takes 16-bit heads of one size up to 256 and no mask. The other one takes masks, and every query head's own keys.
    """
    half = query.dtype in (torch.float16, torch.bfloat16)
    equal = query.shape[-1] == key.shape[-1] == value.shape[-1]
    if query.dim() != 4:
        lead = query.shape[:-2]
        flat = [each.reshape(-1, 1, *each.shape[-2:]) for each in (query, key, value)]
        mask = (
            None
            if attn_mask is None
            else attn_mask.expand(*lead, *attn_mask.shape[-2:]).reshape(-1, 1, *attn_mask.shape[-2:])
        )
        out = attention(flat[0], flat[1], flat[2], mask, dropout_p, is_causal, scale)
        return out.reshape(*lead, *out.shape[-2:])
    if half and equal and attn_mask is None and query.shape[-1] <= FLASH_HEAD:
        size = query.shape[-1]
        if size % 8:
            query, key, value = (torch.nn.functional.pad(each, (0, 8 - size % 8)) for each in (query, key, value))
        out = torch.ops.aten._scaled_dot_product_flash_attention(
            query, key, value, dropout_p, is_causal, False, scale=scale if scale is not None else size**-0.5
        )[0]
        return out[..., :size] if size % 8 else out
    if key.shape[1] != query.shape[1]:
        times = query.shape[1] // key.shape[1]
        key, value = (each.repeat_interleave(times, 1) for each in (key, value))
    if attn_mask is not None:
        attn_mask = additive(attn_mask, query).expand(*query.shape[:3], key.shape[2])
    keeps = torch.is_grad_enabled()
    return torch.ops.aten._scaled_dot_product_efficient_attention(
        query, key, value, attn_mask, keeps, dropout_p, is_causal, scale=scale
    )[0]


def additive(mask: Any, query: Any) -> Any:
    """Return a mask as what is added to scores, in rows of a multiple of 16 bytes, as the memory-efficient kernel wants it."""
    if mask.dtype == torch.bool:
        mask = torch.where(mask, 0.0, float("-inf")).to(query.dtype)
    short = -mask.shape[-1] % 8
    return torch.nn.functional.pad(mask, (0, short))[..., : mask.shape[-1]] if short else mask


class ModulePaths:
    """Know which module runs, and which line of the user's code."""

    def __init__(self, model: Any) -> None:
        self.names = {id(module): name for name, module in model.named_modules()}
        self.stack: list[str] = []
        self.own = {__file__, KnownValues._value.__code__.co_filename}

    def enter(self, module: Any, _inputs: Any) -> None:
        """Note that a module begins."""
        self.stack.append(self.names.get(id(module), self.stack[-1] if self.stack else ""))

    def leave(self, _module: Any, _inputs: Any, _output: Any) -> None:
        """Note that it ends."""
        if self.stack:
            self.stack.pop()

    def __call__(self) -> tuple[str, str]:
        """Return the module's path, and ``file:line`` of the innermost frame that is neither PyTorch's nor this file's."""
        frame: Any = sys._getframe(2)
        inside = "/torch/"
        while frame is not None:
            file = frame.f_code.co_filename
            if inside not in file and file not in self.own and not file.startswith("<"):
                return self._path(), "/".join(file.split("/")[-2:]) + f":{frame.f_lineno}"
            frame = frame.f_back
        return self._path(), ""

    def _path(self) -> str:
        return self.stack[-1] if self.stack else ""


def keep_hooks(tape: Recording) -> Any:
    """Return the hooks that note which tensors autograd keeps."""

    def pack(tensor: Any) -> Any:
        tape.saved.append(tape.number(tensor))
        return tensor

    return torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)


@contextlib.contextmanager
def recorded(tape: Recording, places: ModulePaths) -> Any:
    """Note ops and what autograd keeps of them; what code asks of its own constants is answered."""
    with keep_hooks(tape), OpMode(tape, places), KnownValues():
        yield


def walk_back(loss: Any) -> None:
    """Run the backward pass node by node, newest first, as autograd's engine does; its own threads want a GPU's driver."""
    start = loss.grad_fn
    waits = _awaited(start)
    arrived: dict[Any, dict[int, Any]] = {start: {0: torch.ones_like(loss)}}
    ready = [start]
    while ready:
        node = max(ready, key=lambda each: each._sequence_nr())
        ready.remove(node)
        grads = arrived.pop(node, {})
        if hasattr(node, "variable"):
            continue
        for (after, at), grad in zip(node.next_functions, _of_node(node, grads), strict=False):
            if after is None:
                continue
            if grad is not None:
                there, fitted_grad = arrived.setdefault(after, {}), _as_wanted(after, at, grad)
                there[at] = there[at] + fitted_grad if at in there else fitted_grad
            waits[after] -= 1
            if waits[after] == 0:
                ready.append(after)


def _as_wanted(node: Any, at: int, grad: Any) -> Any:
    """Return a gradient in the shape and type of what it belongs to, as autograd's engine does: broadcasting is summed up."""
    wanted = node._input_metadata[at]
    if tuple(wanted.shape) != tuple(grad.shape):
        grad = grad.sum_to_size(tuple(wanted.shape))
    return grad if grad.dtype == wanted.dtype else grad.to(wanted.dtype)


def _awaited(start: Any) -> dict[Any, int]:
    """Return how many nodes hand a gradient to each node of a graph."""
    waits: dict[Any, int] = {}
    seen, todo = {start}, [start]
    while todo:
        for after, _ in todo.pop().next_functions:
            if after is not None:
                waits[after] = waits.get(after, 0) + 1
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
    return waits


def _of_node(node: Any, grads: dict[int, Any]) -> tuple[Any, ...]:
    if not grads:
        return tuple(None for _ in node.next_functions)
    given = [grads.get(at) for at in range(len(node._input_metadata))]
    out = node.apply(*given) if isinstance(node, torch.autograd.function.BackwardCFunction) else node(*given)
    return out if isinstance(out, tuple) else (out,)
