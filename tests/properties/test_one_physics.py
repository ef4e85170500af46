"""One physics: a kernel takes the same time in training, forward, prefill and decode, on one card and from one library."""

from __future__ import annotations
