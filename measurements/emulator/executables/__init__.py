"""Emulation of CUDA executables without a GPU.

A replacement of the CUDA runtime library (``library/``, in C++) sends each launch to the emulator. Start at
``executable.py``, which starts the executable; ``session.py`` answers its requests. ``executable_launch.py`` runs a
launch several times, as the caller requests. This package must not import operators or kernel templates.
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
