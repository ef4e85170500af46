"""Describe what surrounds the steps of a long run: checkpoints, failures, stragglers, and where samples come from."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from roofsim.records import dataclass
from roofsim.schema.base import Field, model_validator
from roofsim.spec.reading.quantity import Bandwidth, Bytes, Duration, SecondsOrNone
from roofsim.spec.strict import Strict


class Checkpoint(Strict):
    """How often parameters and optimizer state are written, and where to."""

    every: Annotated[int, Field(ge=1, le=10**9)] | None = Field(default=None, description="Steps between checkpoints.")
    interval: Duration | None = Field(default=None, description="Time between checkpoints, instead of steps.")
    background: bool = Field(
        default=False, description="Training goes on when the state is copied to the host; it is written from there."
    )
    bandwidth: Bandwidth | None = Field(
        default=None, description="What all nodes together can write, where that is less than their own storage.write."
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.every is not None and self.interval is not None:
            raise ValueError("every (steps) and interval (time) say the same; give one")
        return self


class Input(Strict):
    """What has to be done to each sample before a step takes it."""

    bytes_per_sample: Bytes = Field(description="As it lies in storage.")
    place: Literal["nvme", "nvmeof"] = Field(
        default="nvme", description="Where samples lie: in the node's storage, or in storage over its network."
    )
    decode_time: SecondsOrNone = Field(
        default=0.0, description="Seconds of one CPU core to decode, crop, tokenise one sample."
    )
    workers: Annotated[int, Field(ge=1, le=4096)] = Field(
        default=1, description="Processes that decode, for each data-parallel rank (num_workers of a DataLoader)."
    )
    decoded_bytes: Bytes | None = Field(
        default=None, description="As it is copied to the device; left out: as it lies in storage."
    )


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """What goes wrong in a long run.

    Attributes
    ----------
    mtbf
        Mean seconds between failures of the whole job; None: nothing fails.
    restart
        Seconds from a failure to the first step after it, beside reading the checkpoint.
    jitter
        Standard deviation of the time of one rank's step, as a share of it.
    """

    mtbf: float | None
    restart: float
    jitter: float
