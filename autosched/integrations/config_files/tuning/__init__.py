"""Search for the fastest configuration of an MoE layer.

Start at ``tune_layer.py``, which chooses configurations, also without a GPU. ``measure.py`` times them on a GPU.
``layer_counts.py`` counts work, and ``pool.py`` verifies configurations in separate processes. ``sidecar.py`` and
``trials.py`` store the chosen configurations. This package must not import ``autosched.cli`` or another integration.
"""
