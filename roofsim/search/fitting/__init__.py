"""Does it fit, what is the largest that fits, what is the least hardware, and what would make it fit."""
