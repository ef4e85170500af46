"""Describe the constants of physics: what kernels, links and memory achieve of a datasheet, and how far off that may be."""
