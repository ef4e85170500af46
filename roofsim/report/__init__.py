"""Show results: text, tables, pictures and plain data, for people and programs."""
