"""Measurement of kernels on the GPUs of many machines.

Start at ``cluster.py``, which finds them through Ray; ``dispatch.py`` distributes work. ``actors.py`` runs on each
machine: it controls its GPU's worker process as a local runner does, and must not import Ray. This package must not
import the store or the emulator.
"""
