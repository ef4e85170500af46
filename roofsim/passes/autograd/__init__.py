"""Add the backward pass: a table of rules, one per op class, and the tape that walks the program back."""

from roofsim.passes.autograd.tape import Autograd, backward

__all__ = ["Autograd", "backward"]
