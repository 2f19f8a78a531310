"""Measure how good and how fast searches are."""
