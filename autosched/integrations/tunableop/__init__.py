"""Read the matrix products of a PyTorch program from PyTorch's TunableOp files.

Start at ``log.py``, which reads the CSV files of PyTorch's TunableOp. Rows without a matching operator are counted by
reason. This package must not import torch or another integration.
"""
