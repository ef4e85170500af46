"""Lower recorded calls: what a profiler says of operators and of the sizes and types of their inputs, into the op vocabulary."""
