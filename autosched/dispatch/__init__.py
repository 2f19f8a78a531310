"""Which kernel is for these arrays, and how is it called?

Start at ``functions`` (``autosched.matmul``), then ``database`` and ``lookup``; ``staleness`` and ``validity`` say
which stored schedules may be used. It must not know how schedules were found: it is imported in programs that only call.
"""
