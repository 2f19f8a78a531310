"""Text form of tile programs.

Start at ``reader.py``, which reads listings in the syntax of the XeTile RFC, of VectorExt and of IREE's reduction
configurations (called "the documents" in comments), and reports each ambiguity that it resolves. ``printer.py`` writes
the canonical form. This package uses ``builder`` as any user does, and must not import planning, lowering or schedules.
"""
