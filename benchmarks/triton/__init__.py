"""Benchmark of configuration files for Triton kernels that installed packages contain."""
