"""How long does a kernel take on a GPU? Start at ``runner``."""
