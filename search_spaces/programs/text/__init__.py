"""Text form of tile programs.

A listing is the text of a program in the syntax of the XeTile RFC, of IREE's VectorExt or of IREE's reduction
configurations. Comments call these sources "the documents". Start at ``reader.py``, which parses listings and reports
each ambiguity that it resolves. ``program.py`` converts a listing to a program, and ``printer.py`` prints a trace as a
listing. This package uses the public interface of ``builder``, and must not import planning, lowering or schedules.
"""
