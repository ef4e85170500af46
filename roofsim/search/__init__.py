"""Search the space of layouts and cards."""
