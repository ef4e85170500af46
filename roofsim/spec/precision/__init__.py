"""Describe number formats: the type of every role, and how checkpoints store their weights."""
