"""Describe an engine's server: how it batches requests, what it caches on the host, how much memory it takes."""

from __future__ import annotations

from typing import Literal

from roofsim.schema.base import Field
from roofsim.spec.reading.quantity import SecondsOrNone
from roofsim.spec.reading.spoken import Count
from roofsim.spec.strict import Strict


class ServerFacts(Strict):
    """How an engine batches the requests of a server."""

    batching: Literal["mixed", "apart"] = Field(
        description="mixed: prompts ride in the steps of running requests; apart: waiting prompts run first, in passes of "
        "their own, while decode waits."
    )
    max_num_batched_tokens: Count | None = Field(
        default=None,
        description="Tokens of prompts (and, mixed, of decode) in a step where prompts are not cut; null: prefill_chunk.",
    )
    max_num_seqs: Count = Field(description="Requests that run at once.")
    max_num_seqs_of: Literal["server", "batch"] = Field(
        default="server",
        description="Whether max_num_seqs are those of a replica, or of each batch that a pipeline has in flight.",
    )
    slots: bool = Field(
        default=False,
        description="Whether requests run in slots of one cache, which is allocated at start, and steps are cut into passes of "
        "prefill_chunk tokens.",
    )
    host_cache: Literal["inclusive", "exclusive"] | None = Field(
        default=None,
        description="A cache of prefixes on the host holds what the GPU has and more, or what the GPU gave up; null: there "
        "is none.",
    )
    host_load: Literal["beside", "layerwise", "before"] = Field(
        default="beside",
        description="How prefixes come from the host: while others run; layer by layer beside the pass over the rest of the "
        "prompt; or before it, while the GPU waits.",
    )
    decode_graph_rows: Count | None = Field(
        default=None,
        description="Requests of a decode step up to which decode_launch: graphs holds; null: any number. Outside of `serve` "
        "not yet priced.",
    )
    sampling_time: SecondsOrNone = Field(
        default=0.0,
        description="Of the host per running request and step, while the GPU waits, beside host_time_per_sequence: a server that "
        "samples there.",
    )
    admission: Literal["whole", "as_needed"] = Field(
        description="Whether a request is let in once its whole cache has room, or its prompt's; then the last come are "
        "put back when room ends."
    )
    preallocated_of: Literal["device", "static", "free"] = Field(
        description="What preallocated_share is a share of: the device's memory, for weights, cache and activations; the "
        "same, for weights and cache alone (static); or what weights and activations leave (free)."
    )
    options: dict[str, str] = Field(
        default_factory=dict,
        description="Options that only this server has, as `serving` takes them -> what is meant by them; what stands "
        "before a colon is the same in engines that mean the same.",
    )
    former_options: dict[str, str] = Field(
        default_factory=dict, description="Options that earlier versions had -> what takes their place."
    )
    host_time_per_request: SecondsOrNone = Field(
        default=0.0, description="Seconds between client and scheduler and back, before the first token."
    )
