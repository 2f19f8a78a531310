"""What does an access, an instruction or a launch cost the chip, in counts?

Start at ``cost_counts.py``, the counts of one schedule. ``transactions.py`` and ``bank_conflicts.py`` count memory
accesses. Turning counts into times is the job of ``cost_models``, which this room must not import.
"""
