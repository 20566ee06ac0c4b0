"""Measurements. ``python -m benchmarks.orders`` compares the suite with the bare client library."""
