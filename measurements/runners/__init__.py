"""How long does a kernel take? Start at ``base``, the protocol: on a GPU (``cuda``), as recorded, or estimated."""
