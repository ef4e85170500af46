"""Read captures of programs: what `roofsim capture` wrote where PyTorch is."""
