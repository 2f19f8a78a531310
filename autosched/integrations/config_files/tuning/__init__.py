"""Which configuration of an MoE layer is fastest?

Start at ``measure.py``; ``tune_layer.py`` chooses without a GPU. ``layer_counts.py`` counts work, ``pool.py``
verifies in separate processes, ``sidecar.py`` and ``trials.py`` store the results. This room must not import
``autosched.cli`` or another integration.
"""
