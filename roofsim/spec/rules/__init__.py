"""What a scenario must fulfil: each rule once, as a condition on numbers that may be arrays."""
