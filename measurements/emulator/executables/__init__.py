"""Emulation of CUDA executables without a GPU.

Its runtime library is replaced by one whose launches are emulated. Start at ``executable.py``, which starts the
executable; ``session.py`` answers its requests, and ``library/`` is the replacement, in C++. ``executable_launch.py``
makes the runs of a launch; the caller plans them. It must not import operators or templates.
"""

from measurements.emulator.executables.executable import run_executable
from measurements.emulator.executables.executable_launch import ExecutableLaunch
from measurements.emulator.executables.result import (
    ExecutableOptions,
    ExecutableRefused,
    ExecutableResult,
    LaunchFinding,
)
from measurements.emulator.executables.session import LaunchVerifier

__all__ = [
    "ExecutableLaunch",
    "ExecutableOptions",
    "ExecutableRefused",
    "ExecutableResult",
    "LaunchFinding",
    "LaunchVerifier",
    "run_executable",
]
