"""Read how a checkpoint stores its weights: ``quantization_config`` and ``torch_dtype`` of a configuration.

Layouts are those of the quantisers' own files: AutoAWQ's WQLinear_GEMM, GPTQ's QuantLinear, finegrained fp8 of the
transformers library, OCP MXFP4, bitsandbytes' Linear4bit and Linear8bitLt, compressed-tensors, NVIDIA ModelOpt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.importers.compressed import compressed_tensors
from roofsim.importers.fields import Fields
from roofsim.importers.modules import Excluded, wide_layers

if TYPE_CHECKING:
    from collections.abc import Callable

Mapping = dict[str, Any]

#: Types of tensors in configurations -> ours.
DTYPES: Final = {"float32": "fp32", "float": "fp32", "float16": "fp16", "half": "fp16", "bfloat16": "bf16"}
#: Methods whose files this version does not price -> what they are.
UNREAD: Final = {
    "aqlm": "additive codebooks", "bitnet": "ternary weights", "eetq": "int8 weights of EETQ",
    "fouroversix": "fp4 of two scales", "fp-quant": "fp4 after Hadamard turns", "gguf": "a llama.cpp file", "higgs": "Hadamard "
    "turned grids", "hqq": "half-quadratic quantisation", "mlx": "Apple's MLX", "quanto": "optimum-quanto", "quark": "AMD Quark",
    "sinq": "SINQ", "spqr": "sparse outliers", "torchao": "torchao's tensors", "vptq": "vector codebooks",
}  # fmt: skip


def stored_weights(config: Mapping, text: Mapping, mapping: Mapping, where: str) -> Mapping | None:
    """Return the fields of `StoredWeights` for a model's `mapping`; None where the file says nothing of its weights.

    `config` is the whole file, `text` the language model's part of it.
    """
    kind = _dtype(config, text)
    key, given = next(((key, part[key]) for part in (config, text) for key in _KEYS if part.get(key)), ("", None))
    if given is None:
        return kind or None
    if not isinstance(given, dict):
        Fields({}, where).fail(key, f"expected an object; got {type(given).__name__}")
    fields = Fields(given, where, f"{key}.")
    method = _method(fields, mlx="quantization" in config and "quantization_config" not in config)
    reader = METHODS.get(method)
    if reader is None:
        what = f"({UNREAD[method]}) " if method in UNREAD else ""
        return {
            **kind,
            "method": method,
            "unread": f"this version does not price weights of {method} {what}as they are stored",
        }
    stored = reader(fields, mapping)
    return {**kind, "method": method, **stored}


_KEYS: Final = ("quantization_config", "compression_config", "quantization")


def _dtype(config: Mapping, text: Mapping) -> Mapping:
    given = next((part.get(key) for part in (config, text) for key in ("dtype", "torch_dtype") if part.get(key)), None)
    if given is None or given == "auto":
        return {}
    known = DTYPES.get(str(given).removeprefix("torch."))
    return {"dtype": known} if known is not None else {"unread": f"this version does not price weights of type {given}"}


def _method(c: Fields, *, mlx: bool) -> str:
    if c.has("quant_method"):
        return c.word("quant_method").lower().replace("_", "-").removeprefix("intel/")
    if c.flag("load_in_4bit", False) or c.flag("load_in_8bit", False):
        return "bitsandbytes"
    if mlx:
        return "mlx"
    return "modelopt" if c.has("quant_algo") else c.word("quant_method")


def _names(c: Fields, *keys: str) -> list[str]:
    return [name for key in keys for name in c.words(key) or []]


def _grouped(c: Fields, bits: int, default: int = 128) -> Mapping:
    """Return groups along a row, each with a 16-bit scale and a packed zero point, which these files always hold."""
    size = c.whole("group_size", default=default, least=-1)
    groups = {} if size <= 0 else {"group_size": size}
    return {"loader": "int4", "bits": float(bits), "scale_bits": 16.0, "zero_bits": float(bits), **groups}


def _bits(c: Fields, *known: int) -> int:
    bits = int(c.whole("bits", "w_bit", default=known[0]))
    if bits not in known:
        c.fail("bits", f"{bits} bits are not supported; expected {' or '.join(map(str, known))}")
    return bits


def _awq(c: Fields, mapping: Mapping) -> Mapping:
    bits = _bits(c, 4)
    if c.has("q_group_size") and not c.has("group_size"):
        c = Fields({**c.data, "group_size": c.data["q_group_size"]}, c.where, c.path)
    wide = wide_layers(mapping, Excluded(_names(c, "modules_to_not_convert"), "part"))
    return {**_grouped(c, bits), "wide": wide}


def _gptq(c: Fields, mapping: Mapping) -> Mapping:
    bits = _bits(c, 4, 8, 3, 2)
    rules = c.part("dynamic").data
    names = _names(c, "modules_to_not_convert") + [rule[2:] for rule in rules if rule.startswith("-:")]
    if any(not rule.startswith("-:") for rule in rules):
        return {"unread": "this version does not price gptq files whose layers differ in bits (dynamic)"}
    given = c.data.get("modules_in_block_to_quantize") or []
    if not isinstance(given, list):
        c.fail("modules_in_block_to_quantize", "expected a list of names, or of lists of them")
    inside = [name for group in given for name in _listed(group)]
    wide = wide_layers(mapping, Excluded(names, "regex"), only=inside or None)
    fields = _grouped(c, bits)
    head = fields["bits"] + (16.0 + bits) / fields.get("group_size", 4096) if c.flag("lm_head", False) else None
    # Each input's group, 32 bits, is in every file, whether or not activations were ordered.
    return {**fields, "column_bits": 32.0, "wide": wide, **({} if head is None else {"head_bits": head})}


def _listed(group: Any) -> list[str]:
    return [str(name) for name in group] if isinstance(group, list) else [str(group)]


def _auto_round(c: Fields, mapping: Mapping) -> Mapping:
    packing = c.word("packing_format", "auto_round:auto_gptq")
    if "awq" in packing:
        return _awq(c, mapping)
    if "gptq" in packing or packing == "auto_round":
        return _gptq(c, mapping)
    return {"unread": f"this version does not price auto-round's packing {packing}"}


def _fp8(c: Fields, mapping: Mapping) -> Mapping:
    """Return fp8 with a scale per matrix, or per block (DeepSeek's, Qwen's): fp32 scales, activations converted."""
    c.only("activation_scheme", "dynamic", "static")
    names = _names(c, "modules_to_not_convert", "ignored_layers")
    base: Mapping = {
        "loader": "fp8",
        "bits": 8.0,
        "arithmetic": "fp8",
        "wide": wide_layers(mapping, Excluded(names, "whole")),
    }
    block = c.wholes("weight_block_size", [])
    if len(block) == 2:
        return {**base, "group_rows": block[0], "group_size": block[1], "scale_bits": 32.0}
    if block:
        c.fail("weight_block_size", f"expected rows and columns such as [128, 128]; got {block}")
    static = c.word("activation_scheme", "dynamic") == "static"
    return {**base, "matrix_bits": 64.0 if static else 32.0}


def _fbgemm(c: Fields, mapping: Mapping) -> Mapping:
    wide = wide_layers(mapping, Excluded(_names(c, "modules_to_not_convert"), "whole"))
    return {"loader": "fp8", "bits": 8.0, "row_bits": 32.0, "arithmetic": "fp8", "wide": wide}


def _mxfp4(c: Fields, mapping: Mapping) -> Mapping:
    """Return the mxfp4 of gpt-oss: experts alone, products in 16 bits (Mxfp4GptOssExperts)."""
    wide = wide_layers(mapping, Excluded(_names(c, "modules_to_not_convert"), "regex"), only=["mlp.experts"])
    return {
        "loader": "mxfp4",
        "bits": 4.0,
        "group_size": 32,
        "scale_bits": 8.0,
        "only": ["experts."],
        "wide": {name: share for name, share in wide.items() if name.startswith("experts.")},
    }


def _bitsandbytes(c: Fields, mapping: Mapping) -> Mapping:
    wide = {"wide": wide_layers(mapping, Excluded(_names(c, "llm_int8_skip_modules"), "whole"))}
    if not (c.flag("load_in_4bit", False) or c.flag("_load_in_4bit", False)):
        # Linear8bitLt: an fp32 scale (SCB) per row, products in int8.
        return {"loader": "bitsandbytes", "bits": 8.0, "row_bits": 32.0, "arithmetic": "int8", **wide}
    c.only("bnb_4bit_quant_type", "fp4", "nf4")
    base: Mapping = {"loader": "bitsandbytes", "bits": 4.0, "group_size": 64, **wide}
    if c.flag("bnb_4bit_use_double_quant", False):
        # 8-bit scales; one in fp32 per 256 of them; the maps of 16 and 256 values and an offset, fp32 per matrix.
        return {**base, "scale_bits": 8.0 + 32.0 / 256.0, "matrix_bits": 32.0 * (16 + 256)}
    return {**base, "scale_bits": 32.0, "matrix_bits": 32.0 * 16}


def _modelopt(c: Fields, mapping: Mapping) -> Mapping:
    inner = c.part("quantization") if c.has("quantization") else c
    algorithm = inner.word("quant_algo", "none").upper()
    names = _names(inner, "exclude_modules", "ignore")
    wide = {"wide": wide_layers(mapping, Excluded(names, "glob"))}
    cache = inner.data.get("kv_cache_quant_algo") or inner.part("kv_cache_scheme").data.get("type")
    kept = {"key_value_cache": "fp8"} if str(cache).upper() in ("FP8", "FLOAT") else {}
    if algorithm == "FP8":
        return {"loader": "fp8", "bits": 8.0, "matrix_bits": 64.0, "arithmetic": "fp8", **wide, **kept}
    if algorithm == "NVFP4":
        return {
            "loader": "nvfp4",
            "bits": 4.0,
            "group_size": inner.whole("group_size", default=16),
            "scale_bits": 8.0,
            "matrix_bits": 64.0,
            "arithmetic": "fp4",
            **wide,
            **kept,
        }
    return {"unread": f"this version does not price ModelOpt's {algorithm}"}


def _exl2(c: Fields, mapping: Mapping) -> Mapping:
    del mapping
    return {"loader": "exl2", "bits": c.number("bits", 4.0), "head_bits": c.number("head_bits", 6.0)}


def _exl3(c: Fields, mapping: Mapping) -> Mapping:
    """Read what exllamav3/conversion/compile.py writes: `bits` is the mean that the converter reached, scales apart."""
    return {**_exl2(c, mapping), "loader": "exl3", "row_bits": 16.0, "column_bits": 16.0}


#: quant_method -> the function that reads it.
METHODS: Final[dict[str, Callable[[Fields, Mapping], Mapping]]] = {
    "awq": _awq,
    "gptq": _gptq,
    "auto-round": _auto_round,
    "fp8": _fp8,
    "fbgemm-fp8": _fbgemm,
    "mxfp4": _mxfp4,
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": compressed_tensors,
    "modelopt": _modelopt,
    "exl2": _exl2,
    "exl3": _exl3,
}
