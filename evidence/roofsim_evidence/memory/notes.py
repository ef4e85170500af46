"""Say what is known about measured peaks of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from roofsim_evidence.memory.cases import MemoryPrediction

#: Source -> what is known of all its rows.
KNOWN: Final = {
    "exllama": "the engine's fixed buffers and its loading are not stated",
    "megatron-bridge": "see the known errors",
    "torchtitan": "see the known errors",
    "bigscience": "whole gigabytes, from a monitor",
    "fastertransformer": "one constant for libraries: smaller models need less, and release what they free late",
}


def note(row: MemoryPrediction) -> str:
    """Return what is known about a row."""
    return row.case.note or KNOWN.get(row.case.source, "not explained")
