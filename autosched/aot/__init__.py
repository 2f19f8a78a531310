"""Which kernels does a program carry that runs without autosched? Start at ``export.py``; what is shipped beside the
kernels (a C++ header, a Python file) lies in ``runtime/``. It knows nothing of commands."""

from autosched.aot.export import collect, write
from autosched.aot.exported import ExportedKernel

__all__ = ["ExportedKernel", "collect", "write"]
