"""Benchmark of the configuration files that installed packages contain for their Triton kernels."""
