"""Models that were captured: what roofsim makes of them against what PyTorch counts."""
