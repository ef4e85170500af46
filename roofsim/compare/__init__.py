"""Compare hardware on one scenario: rows, what would run where a row cannot, who wins by time and by cost."""
