"""Add the parameter update."""
