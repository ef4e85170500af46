"""Hold ratios of predictions against ratios of measurements: one run on two cards, or one card with two batches."""
