"""Which matrix products does a PyTorch program compute?

Start at ``log.py``, which reads the CSV files of PyTorch's TunableOp. Rows that name no product of ours are counted
with their reason. This room needs no torch and imports no other integration.
"""
