"""Read StableHLO text, as `jax.jit(f).lower(...).as_text()` gives it: functions, calls, loops of a known length."""
