"""Answer whether a scenario fits, the largest that does, the least hardware for it, and what would make it fit."""
