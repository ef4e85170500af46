"""Read the ``quantization_config`` of compressed-tensors (llm-compressor): W4A16, W8A16, W8A8, fp8, blocks of fp8, fp4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.importers.modules import Excluded, head_is_wide, wide_layers

if TYPE_CHECKING:
    from roofsim.importers.fields import Fields

Mapping = dict[str, Any]

#: Classes of layers that targets name: all linear ones.
_CLASSES: Final = ("Linear",)
#: Formats whose files hold packed integers, their shape beside them.
_PACKED: Final = ("pack-quantized", "marlin-24")


def compressed_tensors(c: Fields, mapping: Mapping) -> Mapping:
    """Return the fields of `StoredWeights`, or why this version cannot say what the weights take."""
    sparsity = c.part("sparsity_config").data
    dense = sparsity.get("sparsity_structure") in (None, "unstructured") and sparsity.get("format", "dense") == "dense"
    if not dense:
        return {"unread": "this version does not price sparse weights of compressed-tensors"}
    groups = c.part("config_groups").data
    if not groups:
        return {"unread": "this version does not price a compressed-tensors file without config_groups"}
    parts = [c.part("config_groups").part(name) for name in groups]
    first = parts[0]
    if any(_scheme(part) != _scheme(first) for part in parts[1:]):
        return {"unread": f"this version does not price layers of several schemes in one file ({', '.join(groups)})"}
    fields = _of_scheme(c, first)
    if "unread" in fields:
        return fields
    names = [name for part in parts for name in part.words("targets") or [] if name not in _CLASSES]
    everything = any(name in _CLASSES for part in parts for name in part.words("targets") or list(_CLASSES))
    ignored = Excluded(c.words("ignore") or [], "whole")
    targets = None if everything else Excluded(names, "whole")
    fields["wide"] = wide_layers(mapping, ignored, targets=targets)
    if everything and not head_is_wide(ignored) and not mapping.get("tie_embeddings"):
        fields["head_bits"] = fields["bits"] + (fields.get("scale_bits", 0.0) / fields.get("group_size", 4096))
    cache = c.part("kv_cache_scheme").data
    if cache.get("num_bits") == 8 and cache.get("type") == "float":
        fields["key_value_cache"] = "fp8"
    return fields


def _scheme(part: Fields) -> tuple[str, str]:
    return repr(part.data.get("weights")), repr(part.data.get("input_activations"))


def _of_scheme(c: Fields, part: Fields) -> Mapping:
    weights, inputs = part.part("weights"), part.part("input_activations")
    bits, kind = weights.whole("num_bits", default=8), weights.word("type", "int")
    form = part.data.get("format") or c.data.get("format") or ""
    converts = bool(inputs.data)
    if converts and inputs.whole("num_bits", default=bits) != bits:
        return {"unread": f"this version does not price W{bits}A{inputs.data.get('num_bits')} of compressed-tensors"}
    if kind == "float" and bits == 4:
        return _fp4(weights, converts=converts)
    if kind == "float" and bits == 8:
        return _scaled(weights, {"loader": "fp8", "bits": 8.0, "arithmetic": "fp8" if converts else None})
    if kind == "int" and bits == 8 and converts:
        return _scaled(weights, {"loader": "int8", "bits": 8.0, "arithmetic": "int8"})
    if kind == "int" and bits in (2, 3, 4, 8) and not converts:
        return _packed(weights, bits, form)
    return {"unread": f"this version does not price {bits}-bit {kind} weights of compressed-tensors"}


def _scaled(weights: Fields, base: Mapping) -> Mapping:
    """Return 8-bit weights with 16-bit scales per matrix, channel, group or block."""
    base = {key: value for key, value in base.items() if value is not None}
    strategy = weights.word("strategy", "channel")
    if strategy == "tensor":
        return {**base, "matrix_bits": 16.0}
    if strategy == "channel":
        return {**base, "row_bits": 16.0}
    if strategy == "block":
        block = weights.wholes("block_structure", [128, 128])
        if len(block) != 2:
            weights.fail("block_structure", f"expected rows and columns such as [128, 128]; got {block}")
        return {**base, "group_rows": block[0], "group_size": block[-1], "scale_bits": 16.0}
    if strategy == "group":
        return {**base, "group_size": weights.whole("group_size", default=128), "scale_bits": 16.0}
    return {"unread": f"this version does not price the strategy {strategy} of compressed-tensors"}


def _packed(weights: Fields, bits: int, form: str) -> Mapping:
    """Return integers packed into words of 32 bits, 16-bit scales, zero points where they are not symmetric."""
    zeros = 0.0 if weights.flag("symmetric", True) else float(bits)
    base: Mapping = {"loader": "int4", "bits": float(bits), "scale_bits": 16.0, "zero_bits": zeros}
    if form in ("", *_PACKED):
        base["matrix_bits"] = 128.0  # its shape, two numbers of 64 bits
    if weights.word("strategy", "group") == "group":
        base["group_size"] = weights.whole("group_size", default=128)
    if weights.data.get("actorder") in ("group", True):
        base["column_bits"] = 32.0
    return base


def _fp4(weights: Fields, *, converts: bool) -> Mapping:
    size = weights.whole("group_size", default=16)
    if size == 32:
        fields: Mapping = {"loader": "mxfp4", "bits": 4.0, "group_size": 32, "scale_bits": 8.0}
    else:
        # An fp8 scale per group, an fp32 one per matrix, and one of its inputs.
        fields = {
            "loader": "nvfp4",
            "bits": 4.0,
            "group_size": size,
            "scale_bits": 8.0,
            "matrix_bits": 64.0 if converts else 32.0,
        }
    return fields | ({"arithmetic": "fp4"} if converts else {})
