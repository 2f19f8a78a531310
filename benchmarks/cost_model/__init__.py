"""Measure how well cost models predict the times of kernels."""
