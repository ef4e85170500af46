"""Lower models that are written layer by layer."""
