"""Instructions whose operands need their own translation.

Start at ``mma.py``; there is one file per family. Each converts the operands of its instructions to a row for the
runtime. A family imports ``forms`` and ``syntax``, and must not import another family.
"""
