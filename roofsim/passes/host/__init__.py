"""Keep state on the host or in storage, with the copies that this takes."""
