"""Lower diffusion models."""
