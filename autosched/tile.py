"""The language of tile programs.

>>> from autosched.tile import Input, Output, program
"""

from search_spaces.programs.beside import Beside
from search_spaces.programs.builder import Argument, Builder, InOut, Input, Output, Program, Scalar, program, wg_map
from search_spaces.programs.language.ir import ProgramError

__all__ = [
    "Argument",
    "Beside",
    "Builder",
    "InOut",
    "Input",
    "Output",
    "Program",
    "ProgramError",
    "Scalar",
    "program",
    "wg_map",
]
