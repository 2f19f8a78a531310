"""Which matrix products does a PyTorch program compute?

``log.py`` reads the CSV files of PyTorch's TunableOp.
"""
