"""Parameters, FLOPs, bytes and peaks beside what PyTorch itself computes."""
