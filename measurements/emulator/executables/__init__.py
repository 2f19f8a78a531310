"""Run a whole CUDA program without a GPU.

Its runtime library is replaced by one whose launches are emulated. Start at ``session.py``, which runs the program
and answers it; ``library/`` is the replacement, in C++. Nothing here knows operators, templates or schedules.
"""

from measurements.emulator.executables.result import (
    ExecutableOptions,
    ExecutableRefused,
    ExecutableResult,
    LaunchFinding,
)
from measurements.emulator.executables.session import run_executable

__all__ = ["ExecutableOptions", "ExecutableRefused", "ExecutableResult", "LaunchFinding", "run_executable"]
