"""Export of tuned kernels to programs that run without autosched.

Start at ``export.py``, which writes cubins or PTX with a manifest. ``runtime/`` has the files that are shipped with
them: a C++ header and a Python loader. ``cpp.py`` generates the launcher. This package must not import the command
line or ``tuning``.
"""

from autosched.aot.export import collect, write
from autosched.aot.exported import ExportedKernel

__all__ = ["ExportedKernel", "collect", "write"]
