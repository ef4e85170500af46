"""Lower language models."""
