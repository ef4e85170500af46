"""Capture a PyTorch model as model.roofsim.json, for `roofsim run model.roofsim.json --gpu h100`.

Runs where PyTorch is, needs no GPU, allocates no weights and sends nothing anywhere. Say in a file of your own what to capture:

    def model():                        # the module; its weights take no memory here
        return MyModel()

    def inputs(batch, length):          # what it is called with: a tensor, a tuple of them, or a mapping of names
        return {"input_ids": torch.randint(0, 50000, (batch, length))}

    def step(model, **inputs):          # a training step's forward pass; returns the loss. Left out: the module is called
        return model(**inputs, labels=inputs["input_ids"]).loss

    python capture.py my_model.py --batch 2,3 --length 128,256,384,512

Two batches and four lengths let roofsim predict any batch and length; one of each is a capture of that size alone.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib
import importlib.util
import json
import platform
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from roofsim.capture.record import AsOnGpu, ModulePaths, OpMode, Recording, recorded, root_of, tensors_in, walk_back
from roofsim.importers.captured.sizes import CaptureError, Point, sizes_of

SCHEMA = "roofsim/capture/1"
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
#: Functions of transformers that would look at values of fake tensors, and what they say of whole sequences.
INSTEAD = {"is_tracing": lambda *_: False, "find_packed_sequence_indices": lambda *_: None}
LIBRARIES = ("transformers", "torchvision", "timm", "diffusers")


def capture(
    model: Any,
    inputs: Any,
    step: Any = None,
    *,
    batch: tuple[int, ...] = (2, 3),
    length: tuple[int, ...] = (1,),
    dtype: str = "bf16",
    name: str | None = None,
    counted_in: str = "tokens",
    train: bool = True,
) -> dict[str, Any]:
    """Return the capture of a model, as the JSON object that roofsim reads.

    Parameters
    ----------
    model
        A function that makes the module.
    inputs
        A function of (batch, length) that makes what it is called with.
    step
        A function of the module and the inputs that returns the loss; left out: the module is called.
    batch, length
        Values at which it is captured. Sizes between and beyond them follow, where they are polynomials of both.
    dtype
        Type of the module's numbers: what `--precision` of roofsim takes the place of.
    counted_in
        ``tokens``: `length` is that of a sequence; ``images``: the side of an image; ``samples``: there is no length.

    Raises
    ------
    CaptureError
        For a program that depends on values, or differs by more than sizes from batch to batch.
    """
    # Every length at one batch; the other batches at the first length and the last.
    points = [(b, n) for n in length for b in batch if b == batch[0] or n in (length[0], length[-1])]
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with warnings.catch_warnings(), torch.backends.cudnn.flags(enabled=False):
        warnings.simplefilter("ignore")
        torch._C._ensureCUDADeviceGuardSet()
        made = on_fake_gpu(made_by(model, mode), mode, DTYPES[dtype])
        made.train(train)
        with as_in_a_run():
            tapes = [one_pass(made, inputs, step, point, mode, DTYPES[dtype], train) for point in points]
    versions = {library: sys.modules[library].__version__ for library in LIBRARIES if library in sys.modules}
    return {
        "schema": SCHEMA,
        "name": name or type(made).__name__,
        "counted_in": counted_in,
        "dtype": dtype,
        "symbols": {"batch": sorted(set(batch)), "length": sorted(set(length))},
        "parameters": sum(parameter.numel() for parameter in made.parameters()),
        "made_by": {"torch": torch.__version__, "python": platform.python_version()} | versions,
    } | together(tapes, points)


@contextlib.contextmanager
def as_in_a_run() -> Any:
    """Let transformers take the ways of a run over whole sequences, where it would look at values, or see that tensors are fake.

    Its masks ask whether sequences are packed or padded. What is captured is neither, unless its inputs have a mask.
    """
    changed = []
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("transformers"):
            for name, instead in INSTEAD.items():
                if name in vars(module):
                    changed.append((module, name, vars(module)[name]))
                    setattr(module, name, instead)
    try:
        yield
    finally:
        for module, name, own in changed:
            setattr(module, name, own)


def made_by(model: Any, mode: Any) -> Any:
    """Return the module, made of fake tensors; of real ones where its code looks at values."""
    try:
        with mode, torch.device("cuda"):
            return model()
    except Exception as error:  # whatever its code raises of fake numbers
        try:
            return model()
        except Exception as again:
            raise CaptureError(f"model() failed: {type(again).__name__}: {again}") from error


def on_fake_gpu(module: Any, mode: Any, dtype: Any) -> Any:
    """Replace parameters and buffers by fake ones on a GPU, floating ones in `dtype`; shared ones stay shared."""
    made: dict[int, Any] = {}

    def fake(tensor: Any) -> Any:
        if id(tensor) not in made:
            kind = dtype if tensor.is_floating_point() else tensor.dtype
            with mode:
                made[id(tensor)] = tensor, torch.empty(tensor.shape, dtype=kind, device="cuda")
        return made[id(tensor)][1]

    wrapped: dict[int, Any] = {}
    for part in module.modules():
        for key, tensor in list(part._parameters.items()):
            if tensor is not None:
                if id(tensor) not in wrapped:
                    with mode:
                        wrapped[id(tensor)] = (
                            tensor,
                            torch.nn.Parameter(fake(tensor), requires_grad=tensor.requires_grad),
                        )
                part._parameters[key] = wrapped[id(tensor)][1]
        for key, tensor in list(part._buffers.items()):
            if tensor is not None:
                part._buffers[key] = fake(tensor)
    return module


def one_pass(module: Any, inputs: Any, step: Any, point: Point, mode: Any, dtype: Any, train: bool) -> Recording:
    """Run the module once over fake inputs of a size and return its tape."""
    tape, places = Recording(), ModulePaths(module)
    places.own.add(__file__)
    for name, tensor in module.named_parameters():
        tape.add(tensor, "parameter", name, trained=tensor.requires_grad)
    for name, tensor in module.named_buffers():
        tape.add(tensor, "buffer", name)
    with mode, torch.device("cuda"):
        given = inputs(*point)
        given = given if isinstance(given, dict) else tuple(given) if isinstance(given, (list, tuple)) else (given,)
        args = [] if isinstance(given, dict) else [typed(value, dtype) for value in given]
        kwargs = {key: typed(value, dtype) for key, value in given.items()} if isinstance(given, dict) else {}
        for key, value in [*enumerate(args), *kwargs.items()]:
            for tensor in tensors_in(value):
                tape.add(tensor, "input", f"input.{key}" if isinstance(key, int) else key)
        with hooked(places), AsOnGpu(), torch.set_grad_enabled(train), recorded(tape, places):
            noted = module.register_forward_hook(lambda _module, _args, out: tape.give_out(tensors_of(out)))
            try:
                out = called(lambda: step(module, *args, **kwargs) if step else module(*args, **kwargs), places)
            finally:
                noted.remove()
        tape.bury()
        loss = loss_of(out) if train else None
        tape.loss = None if loss is None else tape.number(loss)
        tape.outputs = [number for number in tape.outputs if number != tape.loss]
        tape.hold()
        if loss is not None:
            tape.phase = 1
            with OpMode(tape, places):
                walk_back(loss)
    tape.saved_bytes = kept_bytes(tape)
    return tape


def called(run: Any, places: ModulePaths) -> Any:
    """Return what the model gives; say in one sentence why it can't be captured."""
    try:
        return run()
    except Exception as error:
        kind = type(error).__name__
        if "DataDependent" in kind or "GuardOnDataDependent" in kind:
            where = f"{places()[1]} in {places.stack[-1] or 'the module'}" if places.stack else "the step"
            line = user_line(error, places.own)
            raise CaptureError(
                f"the program depends on values, not on sizes alone ({line or where}): which way it goes is known only with data. "
                "Capture one way of it: give the module a fixed condition, or call the branch in step()."
            ) from error
        raise


def user_line(error: Exception, own: set[str]) -> str:
    """Return ``file:line`` of the innermost frame of an error that is neither PyTorch's nor of the files `own`."""
    trace, line = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "/torch/" not in file and file not in own:
            line = f"{'/'.join(file.split('/')[-2:])}:{trace.tb_lineno}"
        trace = trace.tb_next
    return line


@contextlib.contextmanager
def hooked(places: ModulePaths) -> Any:
    """Let `places` know of every module that begins and ends."""
    hooks = torch.nn.modules.module
    handles = [
        hooks.register_module_forward_pre_hook(places.enter),
        hooks.register_module_forward_hook(places.leave, always_call=True),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def typed(value: Any, dtype: Any) -> Any:
    """Return a value with its floating tensors in `dtype`."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, (list, tuple)):
        return type(value)(typed(each, dtype) for each in value)
    return value


def tensors_of(out: Any) -> list[Any]:
    """Return the tensors of a module's result: a tensor, lists, mappings, or a record of these."""
    if isinstance(out, torch.Tensor):
        return [out]
    if isinstance(out, dict):
        return [tensor for value in out.values() for tensor in tensors_of(value)]
    if isinstance(out, (list, tuple)):
        return [tensor for value in out for tensor in tensors_of(value)]
    return [tensor for value in vars(out).values() for tensor in tensors_of(value)] if hasattr(out, "__dict__") else []


def loss_of(out: Any) -> Any:
    """Return the loss: the only number among the results that has gradients; None: there is none."""
    numbers = [tensor for tensor in tensors_of(out) if tensor.numel() == 1 and tensor.grad_fn is not None]
    return numbers[0] if numbers else None


def kept_bytes(tape: Recording) -> int:
    """Return the bytes of the storages that autograd keeps, but for those of parameters, inputs and buffers."""
    roots = {root_of(tape, number) for number in tape.saved}
    sizes = {
        "float64": 8,
        "int64": 8,
        "float32": 4,
        "int32": 4,
        "bfloat16": 2,
        "float16": 2,
        "int16": 2,
        "complex64": 8,
    }
    total = 0
    for root in roots:
        entry, count = tape.tensors[root], 1
        if "role" not in entry:
            for size in entry["shape"]:
                count *= size
            total += count * sizes.get(entry["dtype"], 1)
    return total


def together(tapes: list[Recording], points: list[Point]) -> dict[str, Any]:
    """Return the one capture that several are: the same ops over sizes that follow the batch and the length."""
    first = tapes[0]
    for tape, point in zip(tapes, points, strict=True):
        same(first, tape, points[0], point)
    return {
        "tensors": [
            entry | {"shape": sizes_of([tape.tensors[at]["shape"] for tape in tapes], points)}
            for at, entry in enumerate(first.tensors)
        ],
        "ops": [entry | facts([tape.ops[at] for tape in tapes]) for at, entry in enumerate(first.ops)],
        "outputs": first.outputs,
        "loss": first.loss,
        "saved": sorted(set(first.saved)),
        "backward": first.backward,
        "measured": [
            {"batch": b, "length": n, "flops": tape.flops, "saved_bytes": tape.saved_bytes}
            for tape, (b, n) in zip(tapes, points, strict=True)
        ],
    }


def same(first: Recording, other: Recording, point: Point, another: Point) -> None:
    """Check that two captures are the same program; raises `CaptureError` with the first op that differs."""
    for at, (one, two) in enumerate(zip(first.ops, other.ops, strict=False)):
        if (one["op"], one["reads"], one["makes"]) != (two["op"], two["reads"], two["makes"]):
            raise CaptureError(
                f"the program differs between batch {point[0]}, length {point[1]} and batch {another[0]}, length {another[1]}: "
                f"op {at} is {one['op']} ({one['line']}) or {two['op']} ({two['line']}). Capture one of the sizes alone."
            )
    if len(first.ops) != len(other.ops):
        raise CaptureError(
            f"the program has {len(first.ops)} ops at batch {point[0]}, length {point[1]} and {len(other.ops)} at batch "
            f"{another[0]}, length {another[1]}: its number of steps follows the data. Capture one of the sizes alone."
        )


def facts(ops: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what an op was called with beside tensors: as it is, fitted, or left out where it follows no rule."""
    stated: dict[str, Any] = {}
    for name in ops[0].get("given", {}):
        values = [op.get("given", {}).get(name) for op in ops]
        if all(value == values[0] for value in values):
            stated[name] = values[0]
    return {"given": stated}


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a list such as ``2,3``."""
    return tuple(int(part) for part in text.split(","))


def loaded(target: str) -> Any:
    """Return the module of a file, or of a dotted name."""
    path = Path(target)
    if path.suffix != ".py":
        return importlib.import_module(target)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    spec.loader.exec_module(module)
    return module


def save(captured: dict[str, Any], path: Path) -> None:
    """Write a capture; a name that ends in .gz is compressed."""
    text = json.dumps(captured, separators=(",", ":"))
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        path.write_text(text + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Read the command line, capture, write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", help="file (or module) with model(), inputs(batch, length) and, for training, step()")
    parser.add_argument("--batch", type=numbers, default=(2, 3), help="batch sizes to capture at [2,3]")
    parser.add_argument("--length", type=numbers, default=None, help="tokens, or pixels along a side, to capture at")
    parser.add_argument("--counted-in", choices=("tokens", "images", "samples"), default=None)
    parser.add_argument("--dtype", choices=tuple(DTYPES), default="bf16", help="type of the module's numbers [bf16]")
    parser.add_argument("--forward", action="store_true", help="inference: no loss, no dropout")
    parser.add_argument("-o", "--output", type=Path, default=Path("model.roofsim.json"))
    given = parser.parse_args(arguments)
    source = loaded(given.target)
    counted_in = given.counted_in or getattr(source, "counted_in", "tokens" if given.length else "samples")
    try:
        captured = capture(
            source.model,
            source.inputs,
            None if given.forward else getattr(source, "step", None),
            batch=given.batch,
            length=given.length or (1,),
            dtype=given.dtype,
            counted_in=counted_in,
            train=not given.forward,
        )
    except CaptureError as error:
        print(f"capture: {error}", file=sys.stderr)
        return 1
    save(captured, given.output)
    trains = "a training step" if captured["loss"] is not None else "a forward pass"
    print(
        f"{given.output}: {trains} of {captured['name']}, {len(captured['ops'])} ops, {captured['parameters']:,} parameters"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
