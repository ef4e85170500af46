"""Turn the ops of a layer into the kernels that an engine launches for them."""
