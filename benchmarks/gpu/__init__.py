"""Benchmarks that need a GPU, and their preparation on a CPU: ``python -m benchmarks.gpu``."""
