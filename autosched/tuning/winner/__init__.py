"""Which of the fastest schedules wins? Start at ``paired_timing.py``.

Finalists are timed in turns, and the winner is proven. Knows nothing of samplers.
"""
