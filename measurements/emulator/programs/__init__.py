"""Run a whole CUDA program without a GPU.

Its runtime library is replaced by one whose launches are emulated. Start at ``session.py``, which runs the program
and answers it; ``library/`` is the replacement, in C++. Nothing here knows operators, templates or schedules.
"""

from measurements.emulator.programs.result import LaunchFinding, ProgramOptions, ProgramRefused, ProgramResult
from measurements.emulator.programs.session import run_program

__all__ = ["LaunchFinding", "ProgramOptions", "ProgramRefused", "ProgramResult", "run_program"]
