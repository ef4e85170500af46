"""Values: hostile ones of every kind, and well-formed ones that a JSON Schema allows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from roofsim.spec.catalog import names

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

NUMBERS = (
    0, 1, -1, 2, 3, 7, 8, 16, 63, 64, 1000, 2**31, 2**53 + 1, 2**63, 10**12, 10**15, 10**18, 10**30, -(10**30),
    10**400, 0.0, -0.0, 0.1, 0.5, 0.999, 1.0, 1.5, -0.5, 1e-300, 5e-324, 1e-12, 1e12, 1e300, 1.7e308, -1e308,
    math.inf, -math.inf, math.nan,
)  # fmt: skip
TEXTS = (
    "", " ", "\n", "a\x00b", "\x1b[2J\x1b]0;x\x07", "[/x] [bold]", ":smile:", "\u202egpj.\u2066", "模型 µ", "a$b_{$c",
    "{0} %s %(x)d", "nan", "inf", ".inf", "-.inf", "1e400", "-1", "0", "1_000", "0x10", "1e-300", "1:2:3", "yes",
    "null", "~", "true", "2x", "+10%", "3 TB/s", "8 GiB", "-3 TB/s", "0 TB/s", "1e400 GB", "1e-300 s", "3 TB", "3",
    "9999999999999999999999 TFLOP/s", "5 us", "1 fs", "0.001 us", "400 W", "2 USD/h", "1e300 USD/h",
    "../../etc/passwd", "/dev/zero", "/dev/null", "/dev/full", "/", ".", "..", "~root", "x" * 300, "x/" * 3000,
    "n" * 70_000, "config.json", "gpt.yaml", "model.safetensors", "-", "--help", "@file", "*", "&a", "!!int 3",
)  # fmt: skip
WORDS = (
    "train", "forward", "prefill", "decode", "generate", "fp32", "tf32", "fp16", "bf16", "fp16-amp", "bf16-amp",
    "fp8", "mxfp8", "nvfp4", "mxfp4", "int8", "int4", "nf4", "q4_k_m", "iq4_nl", "exl2-4.0bpw", "none", "selective",
    "full", "adamw", "adamw-fused", "adam8bit", "lamb", "sgd", "sgd-momentum", "adafactor", "lion", "muon", "flash",
    "sdpa", "unfused", "channels_last", "channels_first", "lora", "qlora", "gpipe", "1f1b", "interleaved",
    "zero-bubble", "optimizer", "gradients", "host", "nvme", "p2p", "a2a", "all_gather", "decoder", "encoder",
    "resnet", "vit", "mha", "mla", "gelu", "silu", "rmsnorm", "layernorm", "rotary", "learned", "alibi",
)  # fmt: skip


def hostile(random: Random, depth: int = 0) -> Any:
    """Return a value of any kind, mostly of a kind that was not asked for."""
    if depth < 3 and random.random() < 0.25:
        return _container(random, depth)
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: random.choice(NUMBERS),
        lambda: random.choice(TEXTS),
        lambda: random.choice(WORDS),
        lambda: catalog_name(random),
        lambda: random.choice((True, False, None)),
        lambda: random.randint(-3, 300),
        lambda: random.uniform(-2.0, 300.0),
    )
    return random.choices(kinds, weights=(30, 20, 14, 6, 10, 7, 3))[0]()


def _container(random: Random, depth: int) -> Any:
    kind = random.randrange(3)
    if kind == 0:
        return [hostile(random, depth + 1) for _ in range(random.choice((0, 1, 1, 2, 3, 30)))]
    if kind == 1:
        return {key(random): hostile(random, depth + 1) for _ in range(random.choice((0, 1, 1, 2, 5)))}
    return nested(random.choice((5, 59, 70, 400)), mapping=random.random() < 0.5)


def nested(depth: int, *, mapping: bool) -> Any:
    """Return lists in lists, or mappings in mappings."""
    value: Any = 1
    for _ in range(depth):
        value = {"a": value} if mapping else [value]
    return value


def key(random: Random) -> str:
    """Return what might be a key."""
    known = (
        "policy",
        "every",
        "kind",
        "rank",
        "family",
        "name",
        "compute",
        "gpu.memory.bandwidth",
        "inherits",
        "peak",
        "memory",
        "full",
    )
    return random.choice(known) if random.random() < 0.6 else str(random.choice((*TEXTS[:40], *WORDS)))


def catalog_name(random: Random) -> str:
    """Return a name of some catalog."""
    return random.choice(sorted(names(random.choice(("gpu", "system", "engine", "architecture", "model")))))


def of_schema(schema: dict[str, Any], definitions: dict[str, Any], random: Random, depth: int = 0) -> Any:
    """Return a value that a JSON Schema allows, numbers mostly small."""
    if "$ref" in schema:
        return of_schema(definitions[schema["$ref"].rsplit("/", 1)[-1]], definitions, random, depth)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return of_schema(random.choice(schema[union]), definitions, random, depth)
    if "allOf" in schema:
        return of_schema(schema["allOf"][0], definitions, random, depth)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return random.choice(schema["enum"])
    return _of_type(schema, definitions, random, depth)


def _of_type(schema: dict[str, Any], definitions: dict[str, Any], random: Random, depth: int) -> Any:
    makers: dict[Any, Callable[[], Any]] = {
        "integer": lambda: _number(schema, random, whole=True),
        "number": lambda: _number(schema, random, whole=False),
        "boolean": lambda: random.random() < 0.5,
        "null": lambda: None,
        "string": lambda: _text(schema, random),
        "array": lambda: _list(schema, definitions, random, depth),
        "object": lambda: _mapping(schema, definitions, random, depth),
    }
    return makers.get(schema.get("type"), lambda: hostile(random, depth + 1))()


def _list(schema: dict[str, Any], definitions: dict[str, Any], random: Random, depth: int) -> list[Any]:
    least = schema.get("minItems", 0)
    many = random.randint(least, min(schema.get("maxItems", least + 3), least + 3))
    parts = schema.get("prefixItems") or [schema.get("items", {})] * many
    return [of_schema(part, definitions, random, depth + 1) for part in parts]


def _number(schema: dict[str, Any], random: Random, *, whole: bool) -> Any:
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    high = schema.get("maximum", schema.get("exclusiveMaximum", 10**6))
    pick = random.random()
    if pick < 0.6:
        number = random.choice((1, 2, 4, 8, 16, 32, 64, 128, 1024)) if whole else random.random() * 2.0
    elif pick < 0.8:
        number = low + (1 if whole else 1e-9) if "exclusiveMinimum" in schema else low
    elif pick < 0.87:
        number = high - (1 if whole else 1e-9) if "exclusiveMaximum" in schema else high
    else:
        number = math.exp(random.uniform(0.0, math.log(max(high, 2))))
    number = min(max(number, low), high)
    return int(number) if whole else float(number)


def _text(schema: dict[str, Any], random: Random) -> str:
    examples = schema.get("examples")
    if examples:
        number, _, unit = str(random.choice(examples)).partition(" ")
        if not number[:1].isdigit() or number[-1:].isalpha():  # a name, or a word that begins with a number: 1f1b
            return number if random.random() < 0.9 else number[:-1]
        if random.random() < 0.3:
            return f"{number} {unit}"
        return f"{float(number) * 10.0 ** random.uniform(-4.0, 4.0):.4g} {unit}"
    return random.choice(WORDS) if random.random() < 0.5 else catalog_name(random)


def _mapping(schema: dict[str, Any], definitions: dict[str, Any], random: Random, depth: int) -> dict[str, Any]:
    fields = schema.get("properties", {})
    wanted = set(schema.get("required", ()))
    optional = [name for name in fields if name not in wanted]
    chosen = wanted | set(random.sample(optional, min(len(optional), random.choice((0, 1, 1, 2, 3)))))
    mapping = {name: of_schema(fields[name], definitions, random, depth + 1) for name in fields if name in chosen}
    inner = schema.get("additionalProperties")
    if isinstance(inner, dict):
        for _ in range(random.choice((0, 1, 2))):
            mapping[random.choice(WORDS)] = of_schema(inner, definitions, random, depth + 1)
    return mapping


def paths(
    schema: dict[str, Any], definitions: dict[str, Any], prefix: tuple[str, ...] = ()
) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return the schema of every key path that is declared."""
    if "$ref" in schema:
        return paths(definitions[schema["$ref"].rsplit("/", 1)[-1]], definitions, prefix)
    schemas: dict[tuple[str, ...], dict[str, Any]] = {}
    if len(prefix) < 4:
        for part in (*schema.get("anyOf", ()), *schema.get("allOf", ())):
            schemas |= paths(part, definitions, prefix)
        for name, inner in schema.get("properties", {}).items():
            schemas[(*prefix, name)] = inner
            schemas |= paths(inner, definitions, (*prefix, name))
    return schemas


def put(data: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Put a value at a path; mappings on the way are made."""
    at = data
    for part in path[:-1]:
        if not isinstance(at.get(part), dict):
            at[part] = {}
        at = at[part]
    at[path[-1]] = value


def drop(data: dict[str, Any], path: tuple[str, ...]) -> None:
    """Take away what is at a path, if anything is."""
    at: Any = data
    for part in path[:-1]:
        at = at.get(part) if isinstance(at, dict) else None
    if isinstance(at, dict):
        at.pop(path[-1], None)
