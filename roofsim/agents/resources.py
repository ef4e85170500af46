"""What agents can read beside the tools: the names of the catalogs, the glossary, and the schemas of files."""

from __future__ import annotations

import json
from typing import Final, NamedTuple, get_args

from roofsim.analyze.catalogs import SCHEMAS, json_schema
from roofsim.errors import Place, Problem, UnknownNameError, did_you_mean
from roofsim.spec import catalog

_MARKDOWN: Final = "text/markdown"
_PLAIN: Final = "text/plain"
_JSON: Final = "application/schema+json"
_KINDS: Final = get_args(catalog.Kind)
_GLOSSARY: Final = "roofsim://glossary"


class AgentResource(NamedTuple):
    """Something to read.

    Attributes
    ----------
    address
        Its URI.
    title, kind
        What it is in a line, and its type of content.
    """

    address: str
    title: str
    kind: str


def resources() -> list[AgentResource]:
    """Return what there is to read."""
    names = [
        AgentResource(f"roofsim://catalog/{kind}s", f"Names of the {kind}s of the catalog", _PLAIN) for kind in _KINDS
    ]
    schemas = [
        AgentResource(f"roofsim://schema/{kind}", f"JSON Schema of a {kind} file", _JSON)
        for kind in (*SCHEMAS, "model")
    ]
    glossary = AgentResource(_GLOSSARY, "What the words of an answer mean", _MARKDOWN)
    return [*names, glossary, *schemas] if _has_glossary() else [*names, *schemas]


def _has_glossary() -> bool:
    """Tell whether the glossary came with this installation."""
    return (catalog.root() / "docs" / "glossary.md").is_file()


def resource_text(address: str) -> tuple[str, str]:
    """Return type and text of what an address names.

    Raises
    ------
    UnknownNameError
        For an address that names nothing.
    """
    known = {each.address: each for each in resources()}
    if address not in known:
        raise UnknownNameError(Problem("no such resource", Place(address[:200]), "", did_you_mean(address, known)))
    name = address.rpartition("/")[2]
    if address == _GLOSSARY:
        text = (catalog.root() / "docs" / "glossary.md").read_text(encoding="utf-8")
    elif address.startswith("roofsim://schema/"):
        text = json.dumps(json_schema(name))
    else:
        kind = next(each for each in _KINDS if f"{each}s" == name)
        aliases: dict[str, list[str]] = {}
        for alias, full in catalog.known_aliases(kind).items():
            if alias != full:
                aliases.setdefault(full, []).append(alias)
        text = "\n".join(
            full + (f" (also {', '.join(aliases[full])})" if full in aliases else "") for full in catalog.known(kind)
        )
    return known[address].kind, text
