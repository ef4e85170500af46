"""Fit the kernel models to measured kernels: read tables, fit the constants of each class, lend them, write them, score them."""
