"""Describe what links and networks achieve in collectives: efficiencies, startup times and steps, by kind of link."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal

from roofsim.schema.base import BeforeValidator, Field
from roofsim.spec import catalog
from roofsim.spec.constants import link_kinds
from roofsim.spec.reading.quantity import Bandwidth, Bytes, Seconds, SecondsOrNone
from roofsim.spec.reading.source import read_yaml
from roofsim.spec.reading.validate import validate
from roofsim.spec.strict import Strict

if TYPE_CHECKING:
    from collections.abc import Mapping

Share = Annotated[float, Field(gt=0.0, le=1.0)]
Flows = Annotated[float, Field(ge=1.0, le=1_000_000.0)]
Text = Annotated[str, BeforeValidator(str)]


class LinkConstants(Strict):
    """A kind of link inside a node, as a collective library uses it.

    Attributes
    ----------
    efficiency
        Share of the datasheet bandwidth that large messages reach in a ring.
    launch
        Seconds that any collective takes before its first step.
    step
        Seconds of a step in the low-latency protocol.
    handshake, handshake_step
        Seconds that the protocols for larger messages take longer, once and per step.
    small
        Bandwidth of the low-latency protocol; it ends where it loses what the handshakes cost.
    fill, fill_step
        Startup of the widest pipeline, and its part per step.
    ramp
        Bandwidth of the protocol without that startup, against the widest pipeline: what a message loses at first.
    exchange_step, exchange_handshake, exchange_small
        The same as `step`, `handshake` and `small` for all-to-all: all peers at once.
    """

    efficiency: Share
    launch: Seconds
    step: Seconds
    handshake: SecondsOrNone
    handshake_step: SecondsOrNone
    small: Bandwidth
    fill: SecondsOrNone
    fill_step: SecondsOrNone
    ramp: Bandwidth
    exchange_step: Seconds
    exchange_handshake: SecondsOrNone
    exchange_small: Bandwidth


class SwitchConstants(Strict):
    """Reduction inside the switches (NVLink SHARP): every GPU sends and receives the message and a part of it."""

    efficiency: Share
    launch: Seconds


class CustomConstants(Strict):
    """All-reduce kernels of an inference engine: each GPU reads its peers' memory, in one shot or in two.

    Attributes
    ----------
    limit
        Largest message that they take.
    """

    launch_one: Seconds
    launch_two: Seconds
    step: SecondsOrNone
    efficiency_one: Share
    efficiency_two: Share
    limit: Bytes


class NetworkConstants(Strict):
    """A network between nodes.

    Attributes
    ----------
    efficiency
        Share of the stated bandwidth of the NICs that large messages reach in a ring.
    step
        Seconds from a GPU to one of another node.
    fill
        Startup of the widest pipeline.
    ramp
        Share of the bandwidth without that startup.
    point, point_efficiency
        Seconds that point to point and all-to-all take longer (they have no low-latency protocol), and their bandwidth
        against a ring's (they use fewer channels).
    flows, flows_least
        Equal flows that a link between switches carries on average where they are hashed over links, and how few these may
        be; null: packets are spread over links.
    noise
        Standard deviation of the time that a node takes from one meeting of all nodes to the next, as a share of it: hosts,
        congestion, retransmission.
    """

    efficiency: Share
    step: Seconds
    fill: SecondsOrNone
    ramp: Share
    point: SecondsOrNone
    point_efficiency: Share
    flows: Flows | None = None
    flows_least: Flows | None = None
    noise: Annotated[float, Field(ge=0.0, le=0.5)]


class HostLinkConstants(Strict):
    """Share of a host link's bandwidth that copies reach in each direction."""

    from_host: Share
    to_host: Share


class HostConstants(Strict):
    """Copies between a GPU and pinned memory of its host.

    Attributes
    ----------
    efficiency
        Share of the link's bandwidth, each way.
    kinds
        Kind of link -> its own shares, where these were measured.
    """

    efficiency: Share
    latency: Seconds
    kinds: dict[str, HostLinkConstants] = Field(default_factory=dict)

    def reached(self, kind: str | None) -> tuple[float, float]:
        """Return the shares that copies from the host and to it reach over a kind of link."""
        own = self.kinds.get(kind or "")
        return (self.efficiency, self.efficiency) if own is None else (own.from_host, own.to_host)


class SharedConstants(Strict):
    """What all kinds of links share.

    Attributes
    ----------
    own_copy
        Operation -> time of the copy of a rank's own part, against the transfer of a part of that size.
    exchange_efficiency
        Bandwidth of all-to-all and point to point against a ring's.
    corner
        Exponent of the soft maximum of latency and transfer: large is a sharp corner.
    tree
        Network bandwidth of trees against rings.
    sockets
        Bandwidth of PCIe traffic between processor sockets against traffic within one.
    staged
        Bandwidth of PCIe traffic that is staged through host memory, against direct traffic.
    staging
        Time of a step that is staged through host memory, against a direct one.
    launch
        Seconds that a collective takes between nodes of one GPU each.
    """

    own_copy: dict[str, Annotated[float, Field(ge=0.0, le=3.0)]]
    exchange_efficiency: Share
    corner: Annotated[float, Field(ge=1.0, le=64.0)]
    tree: Share
    sockets: Share
    staged: Share
    staging: Annotated[float, Field(ge=1.0, le=20.0)]
    launch: Seconds


class Links(Strict):
    """Constants of collectives; `family` holds geometric means for kinds that nobody measured."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    shared: SharedConstants
    links: dict[str, LinkConstants]
    switches: dict[str, SwitchConstants]
    custom: dict[str, dict[str, CustomConstants]] = Field(description="Engine, or any -> kind of link.")
    networks: dict[str, NetworkConstants]
    host: HostConstants
    ranges: dict[str, Text] = Field(default_factory=dict, description="Plausible range of each number.")
    sources: dict[str, str] = Field(default_factory=dict)
    fitted: dict[str, Text] = Field(default_factory=dict, description="Command, data and residuals of the fit.")

    def link(self, name: str) -> LinkConstants:
        """Return the constants of a kind of link, of its family, or of PCIe."""
        return self.links[_nearest(name, self.links, "pcie")]

    def switch(self, name: str) -> SwitchConstants:
        """Return the constants of reduction in the switches of a kind of link."""
        return self.switches[_nearest(name, self.switches, "nvlink")]

    def own_kernels(self, name: str) -> dict[str, CustomConstants]:
        """Return the constants of engines' own all-reduce over a kind of link, by engine."""
        return {engine: kinds[_nearest(name, kinds, "nvlink")] for engine, kinds in self.custom.items()}

    def network(self, name: str | None) -> NetworkConstants:
        """Return the constants of a kind of network; an unknown one is taken as InfiniBand."""
        return self.networks.get(name or "", self.networks["infiniband"])


def _nearest(name: str, known: Mapping[str, object], otherwise: str) -> str:
    if name in known:
        return name
    family = link_kinds.shipped().kind(name).family
    return family if family in known else otherwise


@cache
def shipped_links() -> Links:
    """Return the constants of the catalog."""
    return validate(Links, read_yaml(catalog.root() / "hardware" / "constants" / "links.yaml"))
