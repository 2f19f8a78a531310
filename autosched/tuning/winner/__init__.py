"""Choice of the winner among the fastest schedules.

Start at ``paired_timing.py``, which times finalists alternately and compares them in pairs. ``finalists.py`` selects
the finalists, and ``winner_verification.py`` verifies the winner in full. This package must not import samplers or the
loop of trials.
"""
