"""Which problems does a program with FlashInfer compute, and how do its tunings outlive it?

Start at ``trace_dump.py``, which reads the definitions and workloads that FlashInfer and flashinfer-bench write.
Definitions that none of our operators computes are counted with their reason. ``persistence.py`` keeps the choices of
FlashInfer's autotuner in a database; it alone imports FlashInfer, and only when a program has done so or asks for it.
This room must not import torch or another integration.
"""
