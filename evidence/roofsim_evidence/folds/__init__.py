"""Predictions out of fold: by constants that never saw the source, the card or the model family of a row."""
