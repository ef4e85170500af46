"""Turn a model into a forward op graph, one module per family."""
