"""Fits without a source, a card or a family of models, of everything that is fitted, and what they predict of the rows."""
