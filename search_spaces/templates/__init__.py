"""Kernel templates, which compute operators.

Start at ``template.py``, the protocol, and at ``matmul/`` as an example: there is one folder for each kernel
template. A template generates a ``GeneratedKernel`` (``search_spaces/launches``). The CUDA C++ is in
``autosched/include``. This package must not import tile programs or the catalogue.
"""
