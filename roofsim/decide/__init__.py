"""Decide: what a change of a scenario does and why, and how much of which resource reaches a target."""
