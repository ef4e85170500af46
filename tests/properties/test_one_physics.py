"""One physics: a kernel takes the same time in training, forward, prefill and decode, on the same card and from the same library."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsim.evaluate import evaluate
from roofsim.graph.base import Phase
from roofsim.graph.ops import Attention, Matmul
from roofsim.spec.resolve import resolve_mapping as _resolve_mapping
