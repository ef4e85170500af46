"""Throw inputs at every door of roofsim: each gets an answer that keeps the laws, or one clean refusal.

`python -m tests.fuzz` runs as many as one likes; `tests/fuzz/test_fuzz.py` runs some of each surface. An input is a surface, a
seed and a number: the same three make the same input.
"""
