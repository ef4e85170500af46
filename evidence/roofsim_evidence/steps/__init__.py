"""Steps on one GPU: the constants of steps, and their errors."""
