"""Read what people type: ``2k``, ``4,096``, ``1e9``, ``zero3``, ``fsdp``, ``--gpu 4090``, ``--tp``."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from roofsim.schema.base import BeforeValidator, Field, WithJsonSchema
from roofsim.units import COUNT_PATTERN, read_count

#: Short name of a key, on the command line, in files and in Python -> the key.
SHORT: Final = {
    "tp": "tensor",
    "pp": "pipeline",
    "dp": "data",
    "ep": "expert",
    "cp": "context",
    "seq_len": "sequence_length",
    "batch": "batch_size",
    "dtype": "precision",
}

#: What else a kind of sharding is called.
SHARDING: Final = {
    "zero0": "none",
    "ddp": "none",
    "zero1": "optimizer",
    "zero2": "gradients",
    "zero3": "full",
    "fsdp": "full",
    "fsdp2": "full",
}

#: What else a precision is called, where the word leaves no doubt.
PRECISIONS: Final = {"float32": "fp32", "float16": "fp16", "half": "fp16", "bfloat16": "bf16"}

#: What else a phase is called. ``inference`` depends on the model: `INFERENCE` stands for it until the model is known.
PHASES: Final = {"training": "train", "generation": "generate"}
INFERENCE: Final = "inference"


#: What else an optimizer is called: by transformers (`optim` of TrainingArguments), bitsandbytes, DeepSpeed, Apex and torchao.
OPTIMIZERS: Final = {
    "adamwtorch": "adamw",
    "adamwtorchfused": "adamw-fused",
    "adamwapexfused": "adamw-fused",
    "fusedadam": "adamw-fused",
    "adamwhf": "adamw-loop",
    "adamw8bit": "adam8bit",
    "adamwbnb8bit": "adam8bit",
    "adamwtorch8bit": "adam8bit",
    "adamw4bit": "adam4bit",
    "adamwtorch4bit": "adam4bit",
    "pagedadamw32bit": "paged-adamw",
    "pagedadamw8bit": "paged-adam8bit",
    "lion32bit": "lion",
    "galoreadamw": "galore",
    "fusedlamb": "lamb",
}


def whole(value: Any) -> Any:
    """Return a whole number that came as a float (of pandas) as an int; anything else as it is.

    >>> whole(2048.0), whole(2048.5)
    (2048, 2048.5)
    """
    return int(value) if isinstance(value, float) and value.is_integer() else value


def count(value: Any) -> Any:
    """Return the number that a word stands for; what is none stays as it is, for the schema to refuse.

    >>> count("2k"), count("4,096"), count(1e9), count("1.5k"), count("four")
    (2048, 4096, 1000000000, 1536, 'four')
    """
    number = read_count(value) if isinstance(value, str) else None
    return whole(value) if number is None else whole(number)


def _counts(**limits: int) -> Any:
    """Return the JSON Schema of a count, with the words that are one too."""
    names = {"gt": "exclusiveMinimum", "ge": "minimum", "le": "maximum"}
    number = {"type": "integer", **{names[key]: value for key, value in limits.items()}}
    word = {"type": "string", "pattern": COUNT_PATTERN}
    return WithJsonSchema({"anyOf": [number, word], "examples": [4096, "4k", "4,096"]})


#: A number of things, at least one; ``2k``, ``4,096`` and ``1e3`` are numbers too.
Positive = Annotated[int, BeforeValidator(count), Field(gt=0, le=10**12), _counts(gt=0, le=10**12)]
#: The same, where there may be none.
NonNegative = Annotated[int, BeforeValidator(count), Field(ge=0, le=10**12), _counts(ge=0, le=10**12)]

#: A setting of a server: requests, slots, tokens of a step.
Count = Annotated[int, BeforeValidator(count), Field(gt=0, le=10**9)]


def _word(words: dict[str, str], *known: str) -> BeforeValidator:
    """Read a word or what else it is called; `known` words are taken with other dashes and capitals too."""
    words = {_plain(name): name for name in known} | words

    def read(value: Any) -> Any:
        return words.get(_plain(value), value) if isinstance(value, str) else value

    return BeforeValidator(read)


def _plain(word: str) -> str:
    return re.sub(r"[-_ ]", "", word.lower())


def optimizer_word(*known: str) -> BeforeValidator:
    """Return what reads the name of an optimizer in the spellings of frameworks.

    Parameters
    ----------
    known
        The names that it is known by here.
    """
    return _word(OPTIMIZERS, *known)


def _named(value: Any) -> Any:
    """Return a name that YAML takes for a number (``4090``) as text."""
    return str(value) if type(value) is int else value


ShardingWord = _word(SHARDING)
PrecisionWord = _word(PRECISIONS)
PhaseWord = _word(PHASES)
Named = BeforeValidator(_named)
