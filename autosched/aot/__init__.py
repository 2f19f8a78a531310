"""How do tuned kernels run without autosched?

Start at ``export.py``, which writes cubins or PTX with a manifest. ``runtime/`` holds the files that are shipped next
to them: a C++ header and a Python loader. ``cpp.py`` generates the launcher. This room must not import the command
line or ``tuning``.
"""

from autosched.aot.export import collect, write
from autosched.aot.exported import ExportedKernel

__all__ = ["ExportedKernel", "collect", "write"]
