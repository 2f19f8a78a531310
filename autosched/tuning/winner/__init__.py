"""Selection of the winner among the fastest schedules.

Start at ``paired_timing.py``, which times finalists in turns and compares them in pairs. ``finalists.py`` selects them,
``winner_verification.py`` verifies the winner in full. This room knows nothing of samplers.
"""
