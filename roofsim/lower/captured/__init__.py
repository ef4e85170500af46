"""Lower captured programs: each of their ops into the op vocabulary, by a table of rules."""
