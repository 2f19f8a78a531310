"""Judges a submitted Triton kernel against a task: right, wrong, racing, out of bounds, cheating or unproven."""
