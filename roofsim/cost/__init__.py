"""Seconds per op: what kernels ask of the device, and the one roofline formula."""
