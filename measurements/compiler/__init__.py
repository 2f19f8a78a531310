"""From CUDA C++ to PTX and cubins: start at ``pool``.

Compilers run in processes of their own and give a result or a failure with a reason; cubins are kept on disk.
"""
