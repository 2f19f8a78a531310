"""What can a chip do?

Start at ``devices.py``; ``products.py`` has one row a GPU and ``architectures.py`` one a compute capability.
``intrinsics.py`` describes tensor instructions as data with the constraints on their operands, ``costs/`` counts
accesses. This room must not import problems (``operators``) or launches.
"""
