"""How long one kernel takes, from its sizes and a few physical constants: pure functions of arrays."""
