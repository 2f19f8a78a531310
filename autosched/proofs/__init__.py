"""Is this kernel right?

Start at ``proof`` (schedules of a template) or ``emulate/`` (any kernel). ``stored_proof`` says when a proof that a
database keeps has gone stale. It must not know how kernels are searched or timed.
"""
