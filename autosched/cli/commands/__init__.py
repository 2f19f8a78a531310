"""Commands of the command line.

Start at ``best.py``, which is short. Every command's file parses options, calls one function of another package and
prints the result. Searches are in ``tuning/``, verification in ``verification/``, and the commands about this machine
in ``machine/``. ``sharing.py`` has ``export``, ``import`` and ``merge``; ``database.py`` has ``db``. Commands contain
no logic of their own, and must not import ``integrations``.
"""
