"""Constants from measurements: the script that measures a card, and what is made of its results."""
