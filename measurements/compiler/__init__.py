"""Compilation of CUDA sources with NVRTC.

Start at ``pool.py``. Compilers run in processes of their own and return a result or a failure with a reason.
``cubin_cache.py`` keeps cubins on disk, ``cuda_headers.py`` finds headers, ``disassembly.py`` reads machine code.
This package must not import runners, the emulator, the store or kernel templates.
"""
