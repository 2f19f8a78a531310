"""How is an operator computed?

There is one folder a kernel template; start at ``template.py``, the protocol, and at ``matmul/`` as an example.
``kernel.py`` describes a generated kernel and its launch, ``tensor_map.py`` and ``texture.py`` its special arguments.
The CUDA C++ is in ``autosched/include``.
"""
