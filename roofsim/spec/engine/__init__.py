"""Describe engines: the facts of a software stack, by name, version and variant."""
