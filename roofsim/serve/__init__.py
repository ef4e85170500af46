"""A running server: continuous batching, its latencies and rates under load, what fits, and a simulation of the same."""
