"""The command line: one small module per verb; the only place that prints and chooses exit codes."""
