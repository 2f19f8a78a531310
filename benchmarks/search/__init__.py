"""Measure the quality and speed of the search."""
