"""Kernel templates, which compute operators.

Start at ``template.py``, which defines the interface of a kernel template, and at ``matmul/`` as an example. There is
one folder for each kernel template, which generates a ``GeneratedKernel`` (``search_spaces/launches``). The CUDA C++ is
in ``autosched/include``. This package must not import tile programs or the catalogue.
"""
