"""Measure the error rates of the check of tuned kernels."""
