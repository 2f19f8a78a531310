"""Operators of language models as functions of arrays.

Start at ``attention.py``. Each operator is a tile program, and is tuned like every other operator. The functions look
up and launch kernels like ``autosched.dispatch.functions``, and raise the same errors. This package must not import the
search or ``verify``.
"""
