"""What does a tile program say?

Start at ``ir.py``, the operations, and ``tracing.py``, which records them. ``interpret.py`` executes a program in
numpy, ``bounded.py`` does so with error bounds, ``padding.py`` follows what fills the ends of arrays. This room must
not import devices, schedules or another room of ``programs``.
"""
