"""The commands: one file for each, named like it; ``sharing`` has export, import and merge, ``database`` has db.

Searches are in ``tuning/``, checks of kernels in ``proofs/``, what this machine can do in ``machine/``.
A command parses options, calls one function of another room and prints. It decides nothing itself.
"""
