"""Describe the file that `roofsim capture` writes: tensors, ops, and what was measured of them."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from roofsim.schema.base import AfterValidator, Field
from roofsim.spec.strict import Strict

#: What names the form in a file's key ``schema``.
SCHEMA: Final = "roofsim/capture/1"
#: Characters of a name; the longest paths of modules have a quarter of it.
LONGEST_NAME: Final = 500


def _name(text: str) -> str:
    """Return a name that can be shown as it is."""
    if len(text) > LONGEST_NAME or not text.isprintable():
        raise ValueError(f"expected a printable text of at most {LONGEST_NAME} characters")
    return text


def _plain(given: dict[str, Any]) -> dict[str, Any]:
    """Return what an op is called with: numbers, words, and lists of whole numbers."""
    for key, value in given.items():
        _name(key)
        parts = value if isinstance(value, list) else [value]
        if not all(type(part) in (bool, int, float) or (part is value and type(part) is str) for part in parts):
            raise ValueError(f"{key}: expected a number, a text, or a list of numbers")
    return given


#: A number of things.
Number = Annotated[int, Field(ge=0, le=10**15)]
#: Part of a size: numerator, denominator, power of the batch, power of the length.
Term = tuple[int, int, int, int]
#: A size: a number, or the sum of terms ``numerator / denominator * batch^i * length^j``.
CapturedSize = Number | tuple[Term, ...]
#: A name of a tensor, a module or an op, or a line of code.
Name = Annotated[str, AfterValidator(_name)]


class CapturedTensor(Strict):
    """A tensor of a captured program."""

    shape: tuple[CapturedSize, ...]
    dtype: Name = Field(description="As PyTorch names it: bfloat16, int64.")
    role: Literal["activation", "parameter", "buffer", "input"] = "activation"
    name: Name = ""
    base: Number | None = Field(default=None, description="Number of the tensor whose storage it shows, or overwrites.")
    trained: bool = False

    @property
    def module(self) -> str:
        """Path of the module that a parameter or buffer belongs to."""
        return self.name.rpartition(".")[0]


class CapturedOp(Strict):
    """A call of an op: ``aten.addmm`` with the tensors that it reads and makes, by number."""

    op: Name
    reads: tuple[Number, ...] = ()
    makes: tuple[Number, ...] = ()
    given: Annotated[dict[str, Any], AfterValidator(_plain)] = Field(
        default={}, description="What it is called with beside tensors, where that is the same at all sizes."
    )
    module: Name = Field(default="", description="Path of the module that calls it.")
    line: Name = Field(default="", description="Line of code that calls it.")
    writes: bool = False
    holds: tuple[Number, ...] = Field(
        default=(), description="Tensors that the program's code holds up to here, although no op reads them any more."
    )


class CapturedSymbols(Strict):
    """Values at which a program was captured."""

    batch: tuple[Number, ...] = Field(min_length=1)
    length: tuple[Number, ...] = Field(min_length=1)


class MeasuredPass(Strict):
    """What PyTorch says of the program at one size: FLOPs forward and backward, bytes that autograd keeps."""

    batch: Number
    length: Number
    flops: tuple[Number, Number]
    saved_bytes: Number


class Capture(Strict):
    """A captured program: one pass of a model over a batch, with what autograd keeps of it."""

    schema_name: Literal["roofsim/capture/1"] = Field(alias="schema")
    name: Name
    counted_in: Literal["tokens", "images", "samples"]
    dtype: Literal["bf16", "fp16", "fp32"] = Field(
        description="Type of the module's numbers, in whose place --precision is."
    )
    symbols: CapturedSymbols
    parameters: Number
    made_by: dict[str, Name] = Field(default={}, description="Versions of the libraries.")
    tensors: tuple[CapturedTensor, ...]
    ops: tuple[CapturedOp, ...] = Field(min_length=1)
    outputs: tuple[Number, ...] = ()
    loss: Number | None = None
    saved: tuple[Number, ...] = Field(default=(), description="Tensors that autograd keeps for the backward pass.")
    backward: dict[str, Number] = Field(default={}, description="Ops of the captured backward pass: how many of each.")
    measured: tuple[MeasuredPass, ...] = ()
