"""Lower image models."""
