"""An example of a plug-in: a card, a model, a family, a pass and a pipeline schedule."""
