"""Schemas of the model families; `FAMILIES` says which module and class describe each, imported when needed."""

from roofsim.spec.model.registry import FAMILIES, family_schema

__all__ = ["FAMILIES", "family_schema"]
