"""Parameters and rules that several templates share.

Start at ``tiling.py``, ``raster.py`` and ``cache_hints.py``, which offer parameters. ``launch_rules.py`` has the limits
of a launch; ``stream_k.py`` and ``persistent.py`` distribute work between blocks. This package must not import a
particular template.
"""
