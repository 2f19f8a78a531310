"""Which problems does a program with FlashInfer compute?

``trace_dump.py`` reads the definitions and workloads that FlashInfer and flashinfer-bench write.
"""
