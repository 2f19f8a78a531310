"""Search for the fastest configuration of an MoE layer.

Start at ``measure.py``; ``tune_layer.py`` chooses configurations, also without a GPU. ``layer_counts.py`` counts work,
``pool.py`` verifies in separate processes, ``sidecar.py`` and ``trials.py`` store the results. This package must not
import ``autosched.cli`` or another integration.
"""
