"""Export tuned kernels that run without autosched.

Start at ``export.py``, which writes cubins or PTX with a manifest. ``runtime/`` holds what is shipped next to them: a
C++ header and a Python loader. ``cpp.py`` generates the launcher. This room imports neither the command line nor
tuning.
"""

from autosched.aot.export import collect, write
from autosched.aot.exported import ExportedKernel

__all__ = ["ExportedKernel", "collect", "write"]
