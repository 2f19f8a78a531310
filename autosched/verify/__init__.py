"""Is this kernel correct?

Start at ``proof.py`` (schedules of a template) or ``emulate/`` (any kernel). ``plan.py`` chooses the runs of a
verification, ``stored_proof.py`` decides when a stored one has gone stale. This room must not import samplers or
tuning.
"""
