"""Inference on published machines: decode steps, prefills, static batches, servers."""
