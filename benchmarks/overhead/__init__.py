"""Overhead of autosched: calls, trials, the store."""
