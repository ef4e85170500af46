"""Say what is alive when: liveness, its peak, and what an allocator takes for it."""
