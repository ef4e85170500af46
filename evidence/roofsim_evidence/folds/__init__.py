"""Folds: what is left out of a fit together, and the file of what is then predicted."""
