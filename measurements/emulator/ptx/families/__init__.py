"""How do instructions with operands of their own become rows of the machine? A file a family; start at ``mma``.
A family knows ``forms``, and none of the others."""
