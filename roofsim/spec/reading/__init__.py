"""Read text and files: positions, units, names, and errors that say where."""
