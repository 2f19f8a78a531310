"""The language of tile programs.

>>> from autosched.tile import Input, Output, program
"""

from search_spaces.programs.builder import Argument, Builder, InOut, Input, Output, Program, Scalar, program, wg_map
from search_spaces.programs.language.ir import ProgramError
from search_spaces.programs.program_template import ProgramTemplate

__all__ = [
    "Argument",
    "Builder",
    "InOut",
    "Input",
    "Output",
    "Program",
    "ProgramError",
    "ProgramTemplate",
    "Scalar",
    "program",
    "wg_map",
]
