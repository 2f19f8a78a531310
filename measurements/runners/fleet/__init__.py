"""How long does a kernel take on the GPUs of many machines?

Start at ``cluster.py``, which finds them through Ray; ``dispatch.py`` gives them work. ``actors.py`` runs on each
machine: it must not import Ray, and drives its GPU's worker process as a local runner does. This room must not import
the store or the emulator.
"""
