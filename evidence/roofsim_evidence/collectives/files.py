"""Write fitted constants of links: hardware/constants/links.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.spec.constants.links import HostLinkConstants
from roofsim.units import humanize
from roofsim_evidence.collectives.start import RANGES, SOURCES

if TYPE_CHECKING:
    from roofsim.schema.base import BaseModel
    from roofsim.spec.constants.links import Links

FILE: Final = "links.yaml"
COMMAND: Final = "evidence fit collectives --write"
HEADER: Final = f"""\
# What links and networks achieve in collectives; `{COMMAND}` wrote it from
# evidence/measurements/collectives.csv.gz. The meaning of each number is in roofsim/spec/constants/links.py.
schema: 1
"""
#: Fields in seconds, bytes per second and bytes; `ramp` of a link is a bandwidth, of a network a share.
SECONDS: Final = (
    "launch", "step", "handshake", "handshake_step", "fill", "fill_step", "exchange_step", "exchange_handshake", "point",
    "latency", "launch_one", "launch_two",
)  # fmt: skip
RATES: Final = ("small", "exchange_small")


def text_of(links: Links, fitted: dict[str, str]) -> str:
    """Return constants as YAML."""
    lines = ["shared: " + _flow(links.shared)]
    for section in ("links", "switches", "networks"):
        lines.append(f"{section}:")
        lines += [f"  {name}: {_flow(value, section)}" for name, value in getattr(links, section).items()]
    lines.append("custom:")
    for engine, kinds in links.custom.items():
        lines.append(f"  {engine}:")
        lines += [f"    {name}: {_flow(value)}" for name, value in kinds.items()]
    lines.append(f"host: {_flow(links.host)}")
    for section, texts in (("ranges", RANGES), ("sources", SOURCES), ("fitted", fitted)):
        lines.append(f"{section}:")
        lines += [f'  "{name}": "{text}"' for name, text in texts.items()]
    return HEADER + "\n".join(lines) + "\n"


def _flow(part: BaseModel, section: str = "") -> str:
    pairs = ((name, getattr(part, name)) for name in type(part).model_fields)
    return (
        "{"
        + ", ".join(f"{name}: {_quantity(name, value, section)}" for name, value in pairs if value is not None)
        + "}"
    )


def _quantity(name: str, value: Any, section: str) -> str:
    if isinstance(value, HostLinkConstants):
        return _flow(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_quantity(key, number, section)}" for key, number in value.items()) + "}"
    if name in SECONDS:
        return humanize(value, "s", 4)
    if name in RATES or (name == "ramp" and section == "links"):
        return humanize(value, "B/s", 4)
    if name == "limit":
        return humanize(value, "B", 4, binary=True)
    return np.format_float_positional(value, precision=4, fractional=False, trim="-")
