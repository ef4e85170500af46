"""Read other people's descriptions of models."""
