"""Describe kinds of links: their family, and what software can do over them."""

from __future__ import annotations

from functools import cache
from typing import Literal

from roofsim.errors import NoDataError
from roofsim.schema.base import Field
from roofsim.spec import catalog
from roofsim.spec.reading.source import read_yaml
from roofsim.spec.reading.validate import validate
from roofsim.spec.strict import Strict


class LinkKind(Strict):
    """A kind of link.

    Attributes
    ----------
    family
        Kind whose constants stand in where nobody measured this one.
    reads_peers
        Whether kernels of a GPU read the memory of all GPUs that its links join.
    reduces_in_switch
        Whether switches of such links reduce what passes through them.
    """

    family: str
    reads_peers: bool = False
    reduces_in_switch: bool = False


class LinkKinds(Strict):
    """Kinds of links by name."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    kinds: dict[str, LinkKind]
    sources: dict[str, str] = Field(default_factory=dict)

    def kind(self, name: str) -> LinkKind:
        """Return what a link is.

        Raises
        ------
        NoDataError
            When the catalog does not know such links.
        """
        if name not in self.kinds:
            known = ", ".join(self.kinds)
            raise NoDataError(
                f"no kind of link is named {name!r}. Give the name of the kind that it works like: {known}"
            )
        return self.kinds[name]


@cache
def shipped() -> LinkKinds:
    """Return the kinds of the catalog."""
    return validate(LinkKinds, read_yaml(catalog.root() / "hardware" / "constants" / "link_kinds.yaml"))
