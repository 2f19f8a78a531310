"""Measured ratios: the time of autosched's kernel divided by the time of the vendor's library.

Both times of a ratio come from one run on a GPU. Each line of ``libraries.csv`` has device, library, the ratio (less
than 1: autosched is faster), and the problem's key. The data are from ``benchmarks/results/gpu_h100.md``, without
kernels that have changed since.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from autosched.worth.evidence import weights
from measurements.trials.problem_key import fields_of
from search_spaces.arrays import FloatArray
from search_spaces.operators.problem import Problem

_TABLE = Path(__file__).with_name("libraries.csv")


@dataclass(frozen=True)
class LibraryTime:
    """A measured comparison: ``ratio`` is autosched's time divided by the library's."""

    device: str
    library: str
    ratio: float
    problem_key: str

    @property
    def fields(self) -> Mapping[str, Any]:
        """The problem as JSON."""
        return fields_of(self.problem_key)


@cache
def library_times(device_name: str) -> tuple[LibraryTime, ...]:
    """Return the comparisons on a device, or on all devices if there are none on this device."""
    with _TABLE.open(newline="") as file:
        rows = [LibraryTime(r["device"], r["library"], float(r["ratio"]), r["problem"]) for r in csv.DictReader(file)]
    return tuple([row for row in rows if row.device == device_name] or rows)


def ratios(problem: Problem, times: Sequence[LibraryTime], number: int, generator: np.random.Generator) -> FloatArray:
    """Return ``number`` random ratios of autosched's time to the library's.

    Ratios of similar problems are sampled more often. If ``problem`` itself was measured, only its ratio is used.
    """
    exact = [t.ratio for t in times if t.problem_key == problem.key()]
    if exact:
        return np.full(number, float(np.median(exact)))
    picked = generator.choice(len(times), size=number, p=weights(problem, [t.fields for t in times]))
    return np.array([t.ratio for t in times])[picked]
