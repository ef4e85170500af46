"""Peaks of memory on one device."""
