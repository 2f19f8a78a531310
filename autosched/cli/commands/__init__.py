"""The commands, one file each, named like the command.

A command parses options, calls one function of another room and prints the result; it decides nothing itself.
Searches are in ``tuning/``, checks of kernels in ``proofs/``, and what this machine can do in ``machine/``.
``sharing.py`` has ``export``, ``import`` and ``merge``; ``database.py`` has ``db``.
"""
