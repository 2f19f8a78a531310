"""Which operands does the runtime get of instructions that need code of their own?

Start at ``mma.py``; there is one file a family. Each turns the operands of its instructions into a row for the
runtime. A family imports ``forms`` and ``syntax``, and must not import another family.
"""
