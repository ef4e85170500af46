"""Model a running server: continuous batching, latencies and rates under load, what fits, and a simulation of the same."""
