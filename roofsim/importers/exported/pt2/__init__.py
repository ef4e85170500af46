"""Read archives of `torch.export.save` without PyTorch: the graph's JSON alone, its weights left where they are."""
