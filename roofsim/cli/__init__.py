"""The command line: one small module a verb; the only place that prints and chooses exit codes."""
