"""Describe cards, nodes and their prices, and find them by name."""
