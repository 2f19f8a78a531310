"""Export of tuned kernels to programs that run without autosched.

Start at ``export.py``, which writes cubins or PTX with a manifest. ``runtime/`` contains files that are copied to every
export: a C++ launcher, a C interface and a Python loader. ``cpp.py`` generates the C++ header with the kernels. This
package must not import the command line or ``tuning``.
"""

from autosched.aot.export import collect, write
from autosched.aot.exported import ExportedKernel

__all__ = ["ExportedKernel", "collect", "write"]
