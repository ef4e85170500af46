"""Schedules of training pipelines: one protocol, a file per schedule, and what runs any of them."""
