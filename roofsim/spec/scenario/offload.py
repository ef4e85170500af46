"""Describe which parts of the state live beyond the device, and the places that hold them."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from roofsim.records import dataclass
from roofsim.schema.base import BeforeValidator, Field, model_validator
from roofsim.spec.reading.spoken import NonNegative
from roofsim.spec.strict import Strict


@dataclass(frozen=True, kw_only=True)
class StateTier:
    """A place beyond device memory.

    Attributes
    ----------
    words
        What stands before the bytes there: ``on the host``.
    storage
        Whether it is storage, which takes whole pages and from which processors compute nothing; else memory that they load from.
    remote
        Whether it is reached over the node's network.
    capacity, rates
        Keys of a system that say how large and how fast it is; of storage what it reads and writes.
    """

    words: str
    storage: bool = False
    remote: bool = False
    capacity: str
    rates: tuple[str, ...]


#: Name in a scenario -> place, the nearest first.
TIERS: Final = {
    "host": StateTier(words="on the host", capacity="host.memory", rates=("host.memory_bandwidth",)),
    "cxl": StateTier(words="in CXL memory", capacity="cxl.capacity", rates=("cxl.bandwidth",)),
    "nvme": StateTier(
        words="in storage", storage=True, capacity="storage.capacity", rates=("storage.read", "storage.write")
    ),
    "nvmeof": StateTier(
        words="in storage of the network",
        storage=True,
        remote=True,
        capacity="remote_storage.capacity",
        rates=("remote_storage.read", "remote_storage.write"),
    ),
}
#: The place whose memory every node has.
HOST: Final = "host"

Place = Literal["none", "host", "cxl", "nvme", "nvmeof"]


def pairs_of(value: Any) -> Any:
    """Return the mapping that ``part=place,part=place`` says, as a command line writes it; anything else as it is."""
    if not isinstance(value, str):
        return value
    if value == "none":
        return {}
    pairs = [pair.split("=") for pair in value.split(",")]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(
            "say what goes where, for example optimizer_state=host or optimizer_state=host,activations=nvme"
        )
    return {part.strip().replace("-", "_"): place.strip() for part, place in pairs}


#: Parts and places, as a mapping or as pairs with an equals sign.
Pairs = BeforeValidator(pairs_of)


class OffloadShare(Strict):
    """Share of the layers' weights that is kept off the device."""

    host: Annotated[float, Field(ge=0.0, le=1.0)] | None = Field(
        default=None, description="Share that is kept on the host."
    )
    cxl: Annotated[float, Field(ge=0.0, le=1.0)] | None = Field(
        default=None, description="Share that is kept in memory behind CXL."
    )
    nvme: Annotated[float, Field(ge=0.0, le=1.0)] | None = Field(
        default=None, description="Share that is kept in storage."
    )
    nvmeof: Annotated[float, Field(ge=0.0, le=1.0)] | None = Field(
        default=None, description="Share that is kept in storage of the network."
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if len(self._shares) != 1:
            raise ValueError("give the share of one place, for example {host: 0.5}")
        return self

    @property
    def _shares(self) -> dict[str, float]:
        shares = {"host": self.host, "cxl": self.cxl, "nvme": self.nvme, "nvmeof": self.nvmeof}
        return {place: share for place, share in shares.items() if share is not None}

    @property
    def place(self) -> str:
        """The place."""
        return next(iter(self._shares))

    @property
    def share(self) -> float:
        """The share."""
        return self._shares[self.place]


class Offload(Strict):
    """Where parts of the state live: on the device, or in a place of `TIERS`."""

    parameters: Place | OffloadShare = Field(
        default="none",
        description="Where weights are kept; in inference also {host: 0.5}, a share of the layers' weights.",
    )
    layers: NonNegative | None = Field(
        default=None,
        description="With parameters or experts, in inference: only the weights of the first n layers are kept off the device. "
        "Default: all.",
    )
    experts: Place = Field(
        default="none",
        description="Where the weights of routed experts are kept in inference, all other weights being on the device.",
    )
    key_value_cache: Place = Field(
        default="none",
        description="Where keys and values are kept in inference; each pass that reads them copies them.",
    )
    gradients: Place = Field(default="none", description="Where gradients are kept.")
    optimizer_state: Place = Field(default="none", description="Where optimizer state is kept.")
    activations: Place = Field(default="none", description="Where activations are kept.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.layers is not None and not isinstance(self.parameters, str):
            raise ValueError("give layers, or a share of them, not both")
        if self.layers is not None and self.parameters == "none" and self.experts == "none":
            raise ValueError("layers goes with parameters or experts: host, cxl, nvme or nvmeof")
        if self.experts != "none" and self.parameters_at != "none":
            raise ValueError("parameters off the device are those of experts too; give one")
        return self

    @property
    def share(self) -> float | None:
        """Share of the layers whose weights are off the device; None: not stated."""
        if isinstance(self.parameters, str):
            return None
        return self.parameters.share

    @property
    def parameters_at(self) -> str:
        """Where weights lie that are not on the device; ``none`` where all are."""
        if self.layers == 0 or self.share == 0.0:
            return "none"
        if isinstance(self.parameters, str):
            return self.parameters
        return self.parameters.place

    @property
    def experts_at(self) -> str:
        """Where the weights of routed experts lie; ``none`` where they are not apart from the other weights."""
        return "none" if self.layers == 0 else self.experts

    @property
    def partial(self) -> bool:
        """Whether it is asked for only a part of the weights."""
        return self.layers is not None or self.share is not None
