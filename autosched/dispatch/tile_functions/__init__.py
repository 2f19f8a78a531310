"""Operators of language models as functions of arrays. Each is a tile program, tuned like every other operator.

They look up and launch kernels like those of ``autosched.dispatch.functions``, and raise the same errors.
"""
