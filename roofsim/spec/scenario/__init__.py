"""Describe what is run: the workload, its layout over ranks, and how the document is read."""
