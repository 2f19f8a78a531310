"""Measurements on the GPUs of many machines.

Start at ``cluster.py``, which finds them through Ray; ``dispatch.py`` gives them work. ``actors.py`` runs on each
machine; it knows nothing of Ray and drives its GPU's worker process as a local runner does.
"""
