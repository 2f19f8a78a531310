"""Reference results for workers that cannot compute them: float64 on the CPU, handed over as files."""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from search_spaces.arrays import FloatArray
from search_spaces.operators.problem import Operand, Problem


@dataclass(frozen=True)
class DataSet:
    """Inputs of a problem drawn with ``seed``, in rotating buffers of ``cold_bytes`` in total (0: in one)."""

    problem: Problem
    seed: int
    cold_bytes: int

    @property
    def key(self) -> str:
        return f"{self.problem.key()} seed {self.seed} cold {self.cold_bytes}"


class References:
    """References and tolerances of one data set at a time, as .npy files in a temporary folder.

    Paths are by "reference" or "tolerance", then by the output's name. Safe for several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._key = ""
        self._paths: dict[str, dict[str, str]] = {}

    def known(self, data: DataSet) -> dict[str, dict[str, str]] | None:
        """The paths, if they are of ``data``."""
        with self._lock:
            return self._paths if self._key == data.key else None

    def computed(self, data: DataSet) -> dict[str, dict[str, str]]:
        """The paths, after computing what they hold if need be. Raises OSError, and what the problem raises."""
        with self._lock:
            if self._key != data.key:
                self._drop()
                inputs = data.problem.random_inputs(data.seed)
                arrays = {"reference": data.problem.reference(inputs), "tolerance": data.problem.tolerance(inputs)}
                self._folder = tempfile.TemporaryDirectory(prefix="autosched-reference-")
                shapes = {o.name: o for o in data.problem.operands()}
                self._paths = {
                    which: {name: self._saved(which, shapes[name], array) for name, array in of.items()}
                    for which, of in arrays.items()
                }
                self._key = data.key
            return self._paths

    def close(self) -> None:
        """Remove the files."""
        with self._lock:
            self._drop()

    def _saved(self, which: str, operand: Operand, array: FloatArray) -> str:
        folder = self._folder.name if self._folder is not None else "."
        path = Path(folder) / f"{which}-{operand.name}.npy"
        try:
            np.save(path, np.ascontiguousarray(np.broadcast_to(array, operand.shape), dtype=np.float64))
        except OSError as error:
            if error.errno is not None:
                raise
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error  # numpy tells no more
        return str(path)

    def _drop(self) -> None:
        self._key = ""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
