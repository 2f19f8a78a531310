"""How is an operator computed?

There is one folder a kernel template; start at ``template.py``, the protocol, and at ``matmul/`` as an example.
A template makes a ``GeneratedKernel`` (``search_spaces/launches``). The CUDA C++ is in ``autosched/include``.
"""
