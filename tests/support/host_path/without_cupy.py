"""Run torch operators with kernels from a database, on the fake driver, in a process without cupy.

Arguments: the database, and the library of the fake driver. Everything except the driver's functions is real:
compiling, loading and launching.
"""

from __future__ import annotations

import ctypes
import sys
from functools import partial
from typing import Any
from unittest import mock

import torch
from host_path_stand_in import LISTENER, Launched, as_launched

import autosched
from autosched.dispatch import functions
from autosched.dispatch.kernel import gpu_library
from autosched.torch import ops
from autosched.torch.extension import extension
from autosched.torch.host_path import HostLaunchTable
from benchmarks.overhead.torch_without_gpu import cpu_tensors_as_cuda
from search_spaces.launches.operand import Operand

SPACE = "autosched_without_cupy"


def main(database: str, stand_in: str) -> None:
    sys.modules["cupy"] = None  # type: ignore[assignment] # as if it were not installed
    ctypes.CDLL(stand_in)  # loaded first, so that it is the driver of this process
    path = HostLaunchTable(extension(), stand_in, stand_in)
    library = torch.library.Library(SPACE, "FRAGMENT")
    for name in ("matmul", "softmax"):
        library.define(name + ops.SCHEMAS[name])
        path.register(library, name, ops.SCHEMAS[name], "CPU", ops.ON_GPU[name], partial(ops.called, name))
    autosched.use(database)
    with cpu_tensors_as_cuda(), mock.patch.object(torch.Tensor, "get_device", lambda _: 0):
        a, b = torch.ones(128, 256, dtype=torch.float16), torch.ones(256, 128, dtype=torch.float16)
        check(path, stand_in, "matmul", a, b)
        check(path, stand_in, "softmax", torch.ones(4, 512))
    assert gpu_library().__version__.startswith("cuda.core")
    assert "cupy" not in {name.partition(".")[0] for name, module in sys.modules.items() if module is not None}


def check(path: HostLaunchTable, stand_in: str, name: str, *tensors: Any) -> None:
    """Launch the same call once through the table and once from Python, and compare the two launches."""
    operator = getattr(getattr(torch.ops, SPACE), name)
    operator(*tensors)
    result, before = operator(*tensors), path.counts()
    kernel = functions.loaded_kernel(ops.called(name, *tensors).problem, 0)
    assert kernel is not None and before[0] > 0
    arguments = kernel._loaded.launch.arguments  # type: ignore[attr-defined]
    sizes = [8 if isinstance(argument, Operand) else 128 for argument in arguments]
    launches: list[Launched] = []

    def hear(config: Any, function: int, parameters: Any, _: Any) -> int:
        launches.append(as_launched(config, function, parameters, sizes))
        return 0

    listener = LISTENER(hear)
    ctypes.CDLL(stand_in).stand_in_listen(listener)
    result = operator(*tensors)
    assert path.counts() == (before[0] + 1, before[1])
    getattr(functions, name)(*tensors, out=result)
    ctypes.CDLL(stand_in).stand_in_listen(None)
    from_table, from_python = launches
    assert from_table == from_python, launches
    print(name, sizes, from_table.cluster)


if __name__ == "__main__":
    main(*sys.argv[1:])
