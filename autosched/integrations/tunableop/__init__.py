"""Which matrix products does a PyTorch program compute?

Start at ``log.py``, which reads the CSV files of PyTorch's TunableOp. Rows without an operator here are counted with
their reason. This room must not import torch or another integration.
"""
