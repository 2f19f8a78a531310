"""Compilation of CUDA sources with NVRTC.

Start at ``pool.py``. Each compiler runs in a separate process and returns a result, or a failure with its reason.
``cubin_cache.py`` keeps cubins on disk, ``cuda_headers.py`` replaces headers that NVRTC lacks, ``disassembly.py`` reads
machine code. This package must not import ``runners``, ``emulator``, ``store`` or kernel templates.
"""
