"""Say when things happen and what is alive."""
