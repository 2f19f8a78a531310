"""Which problems does a program with FlashInfer compute?

Start at ``trace_dump.py``, which reads the definitions and workloads that FlashInfer and flashinfer-bench write.
Definitions that none of our operators computes are counted with their reason. This room must not import FlashInfer,
torch or another integration.
"""
