"""Collect problems to tune from programs that use FlashInfer, and share FlashInfer's tuning results between processes.

Start at ``trace_dump.py``, which reads the definitions and workloads that FlashInfer and flashinfer-bench write.
Definitions without a matching operator are counted by reason. ``persistence.py`` stores the choices of FlashInfer's
autotuner in a database; only this module imports FlashInfer, and only when one of its functions is called. This package
must not import torch or another integration.
"""
