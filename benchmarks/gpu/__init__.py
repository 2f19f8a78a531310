"""Benchmarks that need a GPU, and their preparation: ``python -m benchmarks.gpu``."""
