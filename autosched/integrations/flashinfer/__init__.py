"""Which problems does a program with FlashInfer compute, and how do its tunings outlive it?

Start at ``trace_dump.py``, which reads the definitions and workloads that FlashInfer and flashinfer-bench write.
Definitions without an operator here are counted with their reason. ``persistence.py`` stores the choices of
FlashInfer's autotuner in a database; only this file imports FlashInfer, and only on request. This room must not import
torch or another integration.
"""
