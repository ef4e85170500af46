"""Speed, measured as ratios and counts: ``make benchmark``."""
