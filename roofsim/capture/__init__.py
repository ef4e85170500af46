"""Capture a PyTorch model where PyTorch is installed: the parts of one script, which `roofsim capture --write` joins."""
