"""Kernels that were not fitted: the tables of aiconfigurator-core."""
