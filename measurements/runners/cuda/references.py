"""Compute inputs and float64 references of a problem for GPU workers that do not know its operator."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from measurements.workers.messages import Buffer, digest_of
from search_spaces.launches.operand import Operand
from search_spaces.operators.problem import Problem

# Names of the kinds of arrays in a data set. An operand has at most one array of each kind.
PARTS = ("inputs", "reference", "tolerance")


@dataclass(frozen=True)
class DataSet:
    """Inputs of a problem generated with ``seed``, in rotating buffers of ``cold_bytes`` in total (0: one buffer)."""

    problem: Problem
    seed: int
    cold_bytes: int

    @property
    def key(self) -> str:
        """Key of the data set: text of problem, seed and ``cold_bytes``."""
        return f"{self.problem.key()} seed {self.seed} cold {self.cold_bytes}"


@dataclass(frozen=True, eq=False)
class SentArrays:
    """Arrays to send.

    ``digests`` maps kind and operand to a digest. ``blobs`` maps each digest to the array's bytes in C order.
    """

    digests: dict[str, dict[str, str]]
    blobs: dict[str, Buffer]


NOTHING_SENT = SentArrays({}, {})


class References:
    """Thread-safe cache of arrays, which holds one data set at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key = ""
        self._sent = NOTHING_SENT

    def known(self, data: DataSet) -> SentArrays:
        """Return the arrays of ``data`` that are already computed."""
        with self._lock:
            return self._sent if self._key == data.key else NOTHING_SENT

    def computed(self, data: DataSet, parts: Sequence[str]) -> SentArrays:
        """Return all known arrays of ``data``, which then include the kinds of arrays in ``parts`` (names in PARTS).

        Missing kinds are computed first. References are computed in float64 on the CPU, which can take minutes. Errors
        of the problem's functions are raised unchanged.
        """
        with self._lock:
            if self._key != data.key:
                self._key, self._sent = data.key, NOTHING_SENT
            wanted = [part for part in parts if part not in self._sent.digests]
            if wanted:
                problem, inputs = data.problem, data.problem.random_inputs(data.seed)
                operands = {o.name: o for o in problem.operands()}
                digests, blobs = dict(self._sent.digests), dict(self._sent.blobs)
                for part in wanted:
                    arrays: Mapping[str, npt.NDArray[Any]] = inputs
                    if part != "inputs":
                        arrays = problem.reference(inputs) if part == "reference" else problem.tolerance(inputs)
                    contents = {name: _bytes_of(part, operands[name], array) for name, array in arrays.items()}
                    digests[part] = {name: digest_of(content) for name, content in contents.items()}
                    blobs |= {digests[part][name]: content for name, content in contents.items()}
                self._sent = SentArrays(digests, blobs)
            return self._sent

    def close(self) -> None:
        """Release the cached arrays."""
        with self._lock:
            self._key, self._sent = "", NOTHING_SENT


def array_of(part: str, operand: Operand, content: Buffer) -> Any:
    """Convert the bytes ``content`` to a numpy array with the shape and type of ``operand`` in ``part``.

    Raises ValueError if the number of bytes does not match.
    """
    return np.frombuffer(content, dtype=_storage(part, operand)).reshape(operand.shape)


def _bytes_of(part: str, operand: Operand, array: Any) -> Buffer:
    dense = np.ascontiguousarray(np.broadcast_to(array, operand.shape), dtype=_storage(part, operand))
    return dense.reshape(-1).view(np.uint8).data


def _storage(part: str, operand: Operand) -> np.dtype[Any]:
    return np.dtype(operand.dtype.storage if part == "inputs" else np.float64)
