"""Reductions and normalizations of rows and columns."""
