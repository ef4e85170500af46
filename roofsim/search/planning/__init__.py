"""Search the layouts of a scenario for the best: enumerate, refuse, bound, price, and say which wins and how surely."""
