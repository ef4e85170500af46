"""Published measurements of neural networks, and what they say of roofsim: fits, scores, pages, ablations."""
