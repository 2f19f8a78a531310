"""Sizes, distributions and resources of one schedule of a tile program.

Start at ``choices.py``. Its files compute the distributions, copies, shared memory, registers and splits of one
schedule. Space and lowering both use ``memory.py``, so they count the same bytes. Nothing here generates code: this
package must not import ``lowering``.
"""
