"""Single kernels: the constants of the kernel models, and their errors."""
