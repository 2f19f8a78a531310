"""Kernels on a GPU machine: ``python -m benchmarks.gpu``."""
