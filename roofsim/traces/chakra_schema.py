"""State the messages of Chakra execution traces (mlcommons/chakra, et_def.proto, schema 0.0.4), as far as they are written here."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, Final

from roofsim.errors import NoDataError

#: Version of the schema that the metadata of a file states.
VERSION: Final = "0.0.4"
_PACKAGE: Final = "ChakraProtoMsg"
#: Types of nodes.
NODE_TYPES: Final = {"compute": 4, "send": 5, "receive": 6, "collective": 7}
#: Functions of collectives.
COLLECTIVES: Final = {"all_reduce": 0, "all_gather": 2, "broadcast": 5, "all_to_all": 6, "reduce_scatter": 7}
#: Message -> field -> number, type of protobuf, and whether it repeats; a type that is a message is named by it.
_MESSAGES: Final[dict[str, dict[str, tuple[int, str, bool]]]] = {
    "GlobalMetadata": {"version": (1, "string", False)},
    "AttributeProto": {
        "name": (1, "string", False),
        "int64_val": (9, "int64", False),
        "uint32_val": (11, "uint32", False),
        "uint64_val": (13, "uint64", False),
        "bool_val": (27, "bool", False),
        "string_val": (29, "string", False),
    },
    "Node": {
        "id": (1, "uint64", False),
        "name": (2, "string", False),
        "type": (3, "int32", False),
        "ctrl_deps": (4, "uint64", True),
        "data_deps": (5, "uint64", True),
        "start_time_micros": (6, "uint64", False),
        "duration_micros": (7, "uint64", False),
        "attr": (10, "AttributeProto", True),
    },
}
#: Fields of which a message has one at most, and says which even where it is zero.
_CHOICE: Final = ("int64_val", "uint32_val", "uint64_val", "bool_val", "string_val")


@cache
def messages() -> dict[str, Any]:
    """Return the classes of messages.

    Raises
    ------
    NoDataError
        When protobuf is not installed.
    """
    try:
        descriptors = importlib.import_module("google.protobuf.descriptor_pb2")
        pools = importlib.import_module("google.protobuf.descriptor_pool")
        factory = importlib.import_module("google.protobuf.message_factory")
    except ImportError:
        raise NoDataError(
            "Chakra traces need protobuf, which is not installed: pip install 'roofsim[chakra]'"
        ) from None
    file = descriptors.FileDescriptorProto(name="et_def.proto", package=_PACKAGE, syntax="proto3")
    kinds = descriptors.FieldDescriptorProto
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        if name == "AttributeProto":
            message.oneof_decl.add(name="value")
        for field, (number, kind, repeats) in fields.items():
            label = kinds.LABEL_REPEATED if repeats else kinds.LABEL_OPTIONAL
            nested = kind in _MESSAGES
            made = message.field.add(name=field, number=number, label=label)
            made.type = kinds.TYPE_MESSAGE if nested else getattr(kinds, f"TYPE_{kind.upper()}")
            if nested:
                made.type_name = f".{_PACKAGE}.{kind}"
            if field in _CHOICE:
                made.oneof_index = 0
    pool = pools.DescriptorPool()
    pool.Add(file)
    return {name: factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES}


def encoded(message: Any) -> bytes:
    """Return a message behind its length, as Chakra's files hold them one after the other."""
    data: bytes = message.SerializeToString()
    return varint(len(data)) + data


def varint(value: int) -> bytes:
    """Return a length in protobuf's base-128 form.

    >>> varint(300).hex()
    'ac02'
    """
    pieces = bytearray()
    while value > 0x7F:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*pieces, value))
