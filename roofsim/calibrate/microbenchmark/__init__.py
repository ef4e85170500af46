"""The script that measures a card, in parts: `roofsim.calibrate.script` joins them into one file that stands alone.

The parts import the standard library and one another, and get PyTorch from their caller: roofsim itself needs no PyTorch.
"""
