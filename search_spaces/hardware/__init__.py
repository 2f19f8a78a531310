"""Capabilities and limits of chips.

Start at ``devices.py``; ``products.py`` has one row for each GPU, and ``architectures.py`` one for each compute
capability. ``intrinsics.py`` describes tensor instructions as data with the constraints on their operands, ``costs/``
counts accesses. This package must not import problems (``operators``) or launches.
"""
