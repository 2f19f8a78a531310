"""Measurements on the GPUs of many machines.

``cluster.py`` finds them through Ray and ``dispatch.py`` gives them work. ``actors.py`` runs on each machine; it knows
nothing of Ray and drives its GPU's worker process as a local runner does.
"""
