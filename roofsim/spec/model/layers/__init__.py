"""Describe models that are written layer by layer: amounts, blocks, the steps that hold them, what steps hand on."""
