"""Which matrix products does a PyTorch program compute?

Start at ``log.py``, which reads the CSV files of PyTorch's TunableOp. Rows that none of our operators computes are
counted with their reason. This room must not import torch or another integration.
"""
