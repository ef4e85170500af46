"""Price the input pipeline: seconds in which storage, the host's cores and its link prepare the samples of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.cost.host.copies import host_path
from roofsim.numeric import Real, divide, exactly, maximum, minimum, real
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.cost.scales import Scales
    from roofsim.spec.hardware.schema import Gpu, System
    from roofsim.spec.scenario.layout import Layout
    from roofsim.spec.scenario.running import Input


@dataclass(frozen=True, kw_only=True)
class Feed:
    """Seconds that each resource needs for the samples of one step; all of them work at once, a few samples ahead.

    `storage` is that of the slower one, where samples come over a network: of the storage or of the network to it.
    """

    storage: Real
    host_compute: Real
    host_link: Real

    @property
    def pace(self) -> Real:
        """Seconds of the slowest."""
        return maximum(maximum(self.storage, self.host_compute), self.host_link)


def feed(
    given: Input,
    samples: Real,
    system: System,
    gpu: Gpu,
    layout: Layout,
    scales: Scales,
) -> Feed:
    """Return what the samples of one step take.

    Each data-parallel rank has its own samples, which one loader prepares: the node reads those of all replicas on it,
    at least those of one. Cores of the host are shared by the loaders of a node where their number is known. Samples that come
    over the network are taken not to meet the messages of the step there.
    """
    each = samples / layout.data
    ranks_on_node = minimum(layout.ranks, real(system.gpus_per_node))
    replicas_on_node = maximum(ranks_on_node * layout.data / layout.ranks, 1.0)
    on_node = each * replicas_on_node
    path = host_path(system, gpu, layout.ranks)
    store = path.stores[given.place]
    rate = minimum(store.read * scales.storage, store.network * scales.inter_node_link)
    read = on_node / ranks_on_node * given.bytes_per_sample / rate
    decode = each * given.decode_time / float(given.workers)
    if system.host.cores is not None:
        decode = maximum(decode, on_node * given.decode_time / real(system.host.cores))
    decoded = given.bytes_per_sample if given.decoded_bytes is None else given.decoded_bytes
    link = path.link * scales.host_link
    copied = divide(each * decoded, maximum(link, 0.0)) if _known(link) else 0.0 * each
    return Feed(storage=read, host_compute=decode / scales.host_compute, host_link=copied)


def _known(rate: Real) -> bool:
    return not (exactly(rate, 0.0))
