"""Compare hardware on one scenario: a row per card, what would run where one cannot, and which wins by time and by cost."""
