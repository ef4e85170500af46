"""Lower recommendation models."""
