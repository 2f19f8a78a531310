"""Measure the host time of torch operators, up to and including a driver's launch function that returns immediately.

    python -m benchmarks.overhead.torch_host_path [--rounds 200] [--calls 500] [--json]

No GPU is needed: CPU tensors are treated as GPU tensors, and the driver is fake (``stand_in_driver.cpp``). Each
operator is launched from the table in C++, and also in Python with ``cuda.core`` and ``cuda.bindings``. For comparison,
``torch.matmul`` multiplies tiny CPU matrices. Rounds of all kinds of calls alternate in one process. The median and the
minimum of CPU times are reported.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.overhead.call_overhead import seconds, tuned
from benchmarks.overhead.stand_in import compiled_stand_in
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.row_reduction import Softmax

SPACE = "autosched_benchmark"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.modules["cupy"] = None  # type: ignore[assignment] # as if it were not installed
        stand_in = compiled_stand_in(Path(folder))
        ctypes.CDLL(str(stand_in))  # load the fake driver before any module loads the real one
        times = measured(str(stand_in), Path(folder), options.rounds, options.calls)
    print(json.dumps(times) if options.json else shown(times))
    return 0


def measured(stand_in: str, folder: Path, rounds: int, calls: int) -> dict[str, list[float]]:
    """Return the seconds per call in each round, for each kind of call."""
    import torch

    plain = tuple(torch.ones(64, 64, dtype=torch.float16) for _ in range(2))
    mapped = tuple(torch.ones(128, 256, dtype=torch.float16) for _ in range(2))
    tiny = tuple(torch.ones(4, 4) for _ in range(2))
    rows = torch.ones(4, 512)
    with operators(stand_in, folder) as (table, in_python):
        callables: dict[str, Callable[[], Any]] = {
            "torch.matmul of 4 x 4 on the CPU, including the allocation of the result": lambda: torch.matmul(*tiny),
            "torch.clone of 4 x 4 on the CPU": lambda: torch.clone(tiny[0]),
        }
        for name, its in (("table", table), ("Python", in_python)):
            matmul, softmax = its["matmul"], its["softmax"]
            callables |= {
                f"matmul, 3 pointers, {name}": partial(matmul, *plain),
                f"matmul, 3 tensor maps in a cluster, {name}": partial(matmul, mapped[0], mapped[1].T),
                f"softmax, {name}": partial(softmax, rows),
            }
        for way in callables.values():
            way()
        times: dict[str, list[float]] = {name: [] for name in callables}
        for _ in range(rounds):
            for name, way in callables.items():
                times[name].append(seconds(way, calls))
    return times


@contextmanager
def operators(stand_in: str, folder: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield operators that launch from the table, and operators that launch in Python.

    CPU tensors are treated as tensors of GPU 0.
    """
    import torch

    import autosched
    from autosched.dispatch.kernel import gpu_library
    from autosched.torch import ops
    from autosched.torch.extension import extension
    from autosched.torch.host_path import HostLaunchTable
    from benchmarks.overhead.torch_without_gpu import cpu_tensors_as_cuda

    path = HostLaunchTable(extension(), stand_in, stand_in)
    libraries = [torch.library.Library(f"{SPACE}{suffix}", "FRAGMENT") for suffix in ("", "_python")]
    rows: list[dict[str, Any]] = [{}, {}]
    for name in ("matmul", "softmax"):
        for library in libraries:
            library.define(name + ops.SCHEMAS[name])
        path.register(libraries[0], name, ops.SCHEMAS[name], "CPU", ops.ON_GPU[name], partial(ops.called, name))
        libraries[1].impl(name, ops.ON_GPU[name], "CPU")
        for its, library in zip(rows, libraries, strict=True):
            its[name] = getattr(getattr(torch.ops, library.ns), name).default
    database = str(folder / "best.db")
    tuned(database, Matmul(m=64, n=64, k=64))
    tuned(database, Matmul(m=128, n=128, k=256, order_b="col"), "wgmma_matmul", clustered=True)
    tuned(database, Softmax(rows=4, columns=512, dtype="f32", out="f32"), "row_reduction")
    autosched.use(database)
    with cpu_tensors_as_cuda(), mock.patch.object(torch.Tensor, "get_device", lambda _: 0):
        yield rows[0], rows[1]
    assert gpu_library().__version__.startswith("cuda.core")


def shown(times: dict[str, list[float]]) -> str:
    """Return the table of the results page."""
    lines = ["| call | median | least |", "|---|---:|---:|"]
    for name, each in times.items():
        lines.append(f"| {name} | {statistics.median(each) * 1e6:.1f} us | {min(each) * 1e6:.1f} us |")
    return "\n".join([*lines, "", f"Load average {os.getloadavg()[0]:.1f}."])


if __name__ == "__main__":
    sys.exit(main())
