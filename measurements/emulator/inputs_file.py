"""Store the inputs of a launch in one file. The runs of many candidates map this file read-only."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from measurements.files.work_folders import process_folder
from search_spaces.arrays import Array

PAGE = 4096  # bytes; mappings must begin at multiples of the page size


class InputsFile:
    """A file of arrays, by operand name. It is deleted with this object. Raises OSError."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        file = tempfile.NamedTemporaryFile(dir=process_folder("inputs"), delete=False)  # noqa: SIM115
        self.path = Path(file.name)
        self._finalizer = weakref.finalize(self, self.path.unlink, missing_ok=True)
        self.offsets: dict[str, int] = {}
        self.traits = {name: (array.dtype, array.shape) for name, array in arrays.items()}
        with file:
            end = 0
            for name, array in arrays.items():
                self.offsets[name] = end
                file.seek(end)
                file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
                end = -(-file.tell() // PAGE) * PAGE
            file.truncate(end)
