"""Instructions whose operands need code of their own.

There is one file a family; start at ``mma.py``. Each turns the operands of its instructions into a row for the
runtime. A family imports ``forms`` and no other family.
"""
