"""Build kernels that call functions of ``autosched/include``. Inputs are 32-bit words; outputs are words or floats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from measurements.emulator import Emulation
from search_spaces.arrays import Array
from search_spaces.hardware.dtypes import U32
from search_spaces.launches.operand import Operand

Run = Callable[..., Emulation]

HEAD = '#include "common.cuh"\n'


def entry(body: str, parameters: str = "const float* a, float* o") -> str:
    return f'{HEAD}extern "C" __global__ void kernel({parameters}) {{\n{body}\n}}\n'


def output_of(emulation: Emulation) -> Array:
    assert emulation.ok, emulation.reason or emulation.log
    return emulation.outputs["o"]


def words(name: str, role: str, size: int) -> Operand:
    return Operand(name, "input" if role == "input" else "output", U32, (size,))


def same_floats(ours: npt.NDArray[np.float64], expected: npt.NDArray[np.float64]) -> None:
    np.testing.assert_array_equal(ours, expected)  # NaN equals NaN; signs of zeros are compared separately
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(ours[zero]), np.signbit(expected[zero]))
