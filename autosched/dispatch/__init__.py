"""Which kernel is for these arrays, and how is it called?

Start at ``functions`` (``autosched.matmul``), then ``database`` and ``lookup``; ``staleness`` and ``validity`` say
which stored schedules may be used. Programs that only call import it: it must not know how schedules are found.
"""
