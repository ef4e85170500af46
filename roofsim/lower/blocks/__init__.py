"""Build the layers that families share."""
