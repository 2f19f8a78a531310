"""How do many GPUs of many machines measure? ``cluster.py`` finds them through Ray, ``dispatch.py`` gives them work.

What runs there, ``actors.py``, knows nothing of Ray, and drives its GPU's worker process as a runner here does.
"""
