"""Describe and check data from outside: what `pydantic` does, without importing it for data that is as it should be."""
