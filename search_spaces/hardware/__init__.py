"""Capabilities and limits of GPUs.

Start at ``devices.py``. ``products.py`` has one row for each GPU, and ``architectures.py`` one row for each compute
capability. ``intrinsics.py`` describes tensor instructions as data, with the constraints on their operands. ``costs/``
counts memory accesses and instructions. This package must not import problems (``operators``) or launches.
"""
