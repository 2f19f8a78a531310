"""Compare the output of code for two hash seeds, which change the order of sets of strings."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stdout


def printed(code: str) -> tuple[str, str]:
    """Return what ``code`` prints here, and in a process that has another hash seed and treats warnings as errors."""
    here = io.StringIO()
    with redirect_stdout(here):
        exec(code, {})
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    completed = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return here.getvalue(), completed.stdout
