"""Benchmarks of autosched, and of kernels on a GPU. Run one with ``python -m benchmarks.NAME``."""
