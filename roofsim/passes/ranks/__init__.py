"""Spread a graph over ranks: data-parallel shards and pipeline stages."""
