"""Words of single engines for what their servers are told: slots of llama.cpp, caches of prefixes on the host."""

from __future__ import annotations

from typing import Annotated, Final

from roofsim.schema.base import Field
from roofsim.spec.reading.quantity import Bytes
from roofsim.spec.reading.spoken import Count
from roofsim.spec.strict import Strict

Share = Annotated[float, Field(ge=0.0, le=1.0)]


#: Settings of the load, which all servers have.
PREFIXES: Final = ("num_prefixes", "host_cache_hit_rate")


class Words(Strict):
    """Options that one engine has. Others answer with an error that names theirs."""

    parallel: Annotated[int, Field(gt=0, le=256)] | None = Field(
        default=None, description="llama.cpp: slots of the server, requests that run at once (4, if left out)."
    )
    ctx_size: Count | None = Field(
        default=None,
        description="llama.cpp: tokens of the whole cache, dealt out to the slots; what the requests need, if left out.",
    )
    batch_size: Count | None = Field(
        default=None, description="llama.cpp: tokens of a step, prompts and decode together (2048, if left out)."
    )
    ubatch_size: Count | None = Field(
        default=None, description="llama.cpp: tokens of a pass; a step runs as many as it takes (512, if left out)."
    )
    kv_unified: bool | None = Field(
        default=None,
        description="llama.cpp: slots share one cache, and passes; left out: where parallel is left out, as llama-server does.",
    )
    kv_offloading_size: Bytes | None = Field(
        default=None, description="vLLM: host memory for blocks of the cache, of all GPUs of a replica together."
    )
    swap_space: Bytes | None = Field(
        default=None, description="vLLM before V1: host memory for the cache of preempted requests; an error, as in V1."
    )
    hicache_ratio: Annotated[float, Field(gt=1.0, le=1000.0)] | None = Field(
        default=None, description="SGLang: host memory for the cache, as a multiple of the pool on the GPU."
    )
    hicache_size: Bytes | None = Field(default=None, description="SGLang: host memory for the cache of each GPU.")
    host_cache_size: Bytes | None = Field(
        default=None, description="TensorRT-LLM: host memory for the cache of each GPU (KvCacheConfig)."
    )
    num_prefixes: Count | None = Field(
        default=None,
        description="Prefixes that requests come back to, each equally often; says which share of them still lies in the cache, on "
        "the GPU or on the host. Left out: every prefix is found on the GPU, or where host_cache_hit_rate says.",
    )
    host_cache_hit_rate: Share | None = Field(
        default=None,
        description="Share of the cached tokens of prompts that lie on the host and are copied to the GPU.",
    )

    def stated_words(self) -> list[str]:
        """Return the options of single engines that are stated."""
        return [word for word in Words.model_fields if word not in PREFIXES and getattr(self, word) is not None]

    def host_bytes(self, pool: float, gpus: float) -> float:
        """Return the host memory for the cache of one GPU, of a replica of so many GPUs with such pools; 0: none."""
        if self.kv_offloading_size is not None:
            return self.kv_offloading_size / gpus
        if self.hicache_ratio is not None and self.hicache_size is None:
            return self.hicache_ratio * max(pool, 0.0)
        return self.hicache_size or self.host_cache_size or 0.0

    @property
    def host_key(self) -> str | None:
        """The word that gives the cache a part on the host."""
        names = ("kv_offloading_size", "hicache_size", "hicache_ratio", "host_cache_size")
        return next((name for name in names if getattr(self, name) is not None), None)
