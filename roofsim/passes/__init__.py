"""Transformations of op graphs, one module each; `manager` knows their order."""
