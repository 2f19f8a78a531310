"""Which configuration of an MoE layer is fastest? Start at ``measure.py``; ``tune_layer.py`` chooses without a GPU.

``layer_counts.py`` counts, ``pool.py`` judges in processes, ``sidecar.py`` and ``records.py`` keep what was found.
"""
