"""How is an operator computed?

Start at ``template.py``, the protocol, and at ``matmul/`` as an example: there is one folder a kernel template. A
template makes a ``GeneratedKernel`` (``search_spaces/launches``). The CUDA C++ is in ``autosched/include``. This room
must not import tile programs or the catalogue.
"""
