"""Measurement of kernels on the GPUs of many machines.

Start at ``cluster.py``, which finds the GPUs through Ray. ``dispatch.py`` distributes work. ``actors.py`` runs on each
machine. An actor controls the GPU's worker process as a local runner does. ``__init__.py`` must not import Ray. The
package must not import the store or the emulator.
"""
