"""Name what limits a step, in words."""

from __future__ import annotations

from typing import Final

#: How what limits a step is called in sentences.
BOUND_WORDS: Final = {
    "compute": "compute",
    "memory_bandwidth": "memory bandwidth",
    "launch": "kernel launches",
    "power": "power",
    "intra_node_link": "links inside the node",
    "inter_node_link": "network between nodes",
    "exposed_communication": "exposed communication",
    "bubble": "pipeline bubble",
    "optimizer": "optimizer",
    "host_transfer": "host transfers",
    "input": "input pipeline",
    "host_link": "link to the host",
    "host_memory": "host memory",
    "host_compute": "CPU of the host",
    "storage": "storage",
}
