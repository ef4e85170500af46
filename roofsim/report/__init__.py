"""Text, tables, pictures and plain data for people and programs."""
