"""Widths of intervals: what residuals out of fold say of each way to be unlike what was measured."""
