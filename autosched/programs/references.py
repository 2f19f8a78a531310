"""A user's reference function for a tile program (``FILE.py:FUNCTION``), which computes the expected outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from autosched.user_kernels import KernelFileError
from autosched.user_kernels.kernel_file import UserFunction
from autosched.user_kernels.user_functions import call
from measurements.files.bounded import read_bounded
from search_spaces.arrays import FloatArray
from search_spaces.programs.builder import Program
from search_spaces.programs.language.ir import ProgramError
from search_spaces.programs.language.parameters import Number

_MOST_BYTES = 1 << 22  # maximum size of the file


def with_reference(program: Program, location: str) -> Program:
    """Return a copy of the program whose results are compared with the results of a function.

    The function receives the sizes and arrays named by its parameters, and returns one array, or a dict of all outputs.
    The function runs in a separate process.

    Args:
        program: The tile program.
        location: ``FILE.py:FUNCTION``.

    Returns:
        The program with this reference.

    Raises:
        ProgramError: ``location`` does not name a function in a file.
    """
    file, _, name = location.rpartition(":")
    if not file or not name.isidentifier():
        raise ProgramError(f"--reference {location} does not name a function: use FILE.py:FUNCTION")
    try:
        content = read_bounded(file, _MOST_BYTES).decode("utf-8")
    except (OSError, ValueError) as error:
        raise ProgramError(f"--reference {file} cannot be read: {' '.join(str(error).split())}") from error
    function = UserFunction(name, str(Path(file).resolve()), content)
    outputs = [name for name, a in program.arguments if a.role != "input"]

    def reference(
        sizes: Mapping[str, Number], inputs: Mapping[str, FloatArray], shapes: Mapping[str, tuple[int, ...]]
    ) -> dict[str, FloatArray]:
        label = f"the reference {location}"
        count = sum(int(np.prod(shape)) for shape in shapes.values())
        result: Any = call(function, label, sizes, inputs, count)
        returned = result if isinstance(result, Mapping) else {outputs[0]: result}
        if set(returned) != set(outputs):
            raise KernelFileError(
                f"{label} must return {', '.join(outputs)}, but it returns {', '.join(map(str, returned))}"
            )
        arrays = {name: np.asarray(returned[name], dtype=np.float64) for name in outputs}
        for name, values in arrays.items():
            if values.shape != shapes[name]:
                raise KernelFileError(f"{label} returns {name} with shape {values.shape}, not {shapes[name]}")
        return arrays

    return dataclasses.replace(program, reference=reference)
