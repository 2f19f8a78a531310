"""A user's own kernel: a ``.cu`` file and what may vary, how it is launched, what it computes.

Start at ``user_kernel``; ``document`` and ``reading`` have the TOML, ``template`` makes it a kernel template.
"""
