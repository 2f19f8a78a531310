"""Measure the overhead of autosched's calls, trials and database."""
