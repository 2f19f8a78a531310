"""Measure how often ``autosched check`` reports wrong verdicts."""
