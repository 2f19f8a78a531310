"""Measure how well cost models predict times."""
