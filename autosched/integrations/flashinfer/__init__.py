"""Which problems does a program with FlashInfer compute?

Start at ``trace_dump.py``, which reads the definitions and workloads that FlashInfer and flashinfer-bench write.
Definitions that no operator of ours computes are counted with their reason. This room needs neither FlashInfer nor
torch, and imports no other integration.
"""
