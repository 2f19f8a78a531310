"""Which of the fastest schedules wins?

Start at ``paired_timing.py``, which times finalists alternately and compares them in pairs. ``finalists.py`` selects
them, ``winner_verification.py`` verifies the winner in full. This room must not import samplers or the loop of
trials.
"""
