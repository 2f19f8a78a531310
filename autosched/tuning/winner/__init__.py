"""Which of the fastest schedules wins? Start at ``paired_timing.py``: finalists are timed in turns, the winner is proven.

Knows nothing of samplers.
"""
