"""What autosched itself costs: calls, trials, the store."""
