"""Price what the host does: copies, its own work, and the samples that it delivers."""
