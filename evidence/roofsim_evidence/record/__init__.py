"""Scores of all sets of measurements, a dated line per release, and what may not get worse."""
