"""Settle what a scenario leaves open: sizes, precision, hardware and kernels, and refuse what cannot be."""
