"""What do several templates have in common?

``cache_hints.py``, ``raster.py`` and ``tiling.py`` offer parameters, ``launch_rules.py`` the limits of a launch,
``stream_k.py`` and ``persistent.py`` the ways to share work between blocks. These files know no particular template.
"""
