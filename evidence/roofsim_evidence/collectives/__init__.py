"""Collectives: the constants of links and networks, and their errors."""
