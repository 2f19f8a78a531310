"""Read hardware counters of some kernels with Nsight Compute, if it is installed.

python -m benchmarks.gpu.plan.counters PLAN KEY    # launches the kernel of KEY once, for ncu to profile
"""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.plan.prepared import Prepared, load, scratch
from measurements.compiler.pool import CompileFailure
from measurements.runners.launch import LoadedLaunch
from search_spaces.catalogue import template
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import RmsNorm

KERNELS: dict[str, Problem] = {
    "4096x6144x4096 bf16": Matmul(m=4096, n=6144, k=4096, a="bf16", order_b="col"),
    "4096^3 i8": Matmul(m=4096, n=4096, k=4096, a="i8", order_b="col"),
    "2048^3 tf32": Matmul(m=2048, n=2048, k=2048, a="f32"),
    "4095x4097x4099 f16": Matmul(m=4095, n=4097, k=4099),
    "16x6144x4096 bf16": Matmul(m=16, n=6144, k=4096, a="bf16", order_b="col"),
    "rmsnorm 4096x65536": RmsNorm(4096, 65536),
}
_SECTIONS = ("SpeedOfLight", "MemoryWorkloadAnalysis", "WarpStateStats", "Occupancy")
_ROOT = Path(__file__).resolve().parents[3]


def profiled(key: str, folder: Path, seconds: float, ncu: str | None = None) -> dict[str, Any]:
    """Profile the first schedule of a kernel. Return its ``metrics``, or the ``reason`` why there are no metrics.

    Args:
        key: Key of KERNELS.
        folder: The prepared plan.
        seconds: Time after which the profiler is killed.
        ncu: The profiler; None for the one on PATH.
    """
    ncu = ncu or shutil.which("ncu")
    if ncu is None:
        return {"reason": "ncu is not installed"}
    child = [sys.executable, "-m", "benchmarks.gpu.plan.counters", str(folder), key]
    sections = [word for section in _SECTIONS for word in ("--section", section)]
    command = [ncu, "--csv", "--clock-control", "none", "--profile-from-start", "off", *sections, *child]
    try:
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"reason": f"ncu did not end within {seconds:.0f} s", "cut": True}
    metrics = metrics_of(done.stdout)
    if not metrics:
        lines = (done.stderr or done.stdout).strip().splitlines()
        return {"reason": lines[-1] if lines else f"ncu ended with status {done.returncode} and printed nothing"}
    return {"metrics": metrics}


def metrics_of(text: str) -> dict[str, str]:
    """Return metrics with units from the output of ``ncu --csv``; empty if the output contains no table."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = csv.DictReader(io.StringIO("\n".join(lines)))
    return {
        f"{row['Section Name']}: {row['Metric Name']}": f"{row['Metric Value']} {row['Metric Unit']}".strip()
        for row in rows
        if row.get("Metric Name") and row.get("Metric Value")
    }


def summary(row: dict[str, Any]) -> str:
    """Return one line for a result."""
    return f"{len(row['metrics'])} metrics" if "metrics" in row else str(row["reason"])


def launch_once(prepared: Prepared, problem: Problem, cp: Any) -> None:
    """Launch the first schedule of a problem twice, the second time within a profiled range.

    Raises:
        ValueError: The plan has no compiled schedule for the problem.
    """
    schedules = prepared.schedules.get(problem)
    if not schedules:
        raise ValueError(f"the plan has no schedule of {problem}")
    kernel = template(schedules[0].template).kernel(problem, schedules[0], prepared.device)
    compiled = prepared.cubins.submit(kernel, prepared.device.arch).result()
    if isinstance(compiled, CompileFailure):
        raise ValueError(compiled.reason)
    launch = LoadedLaunch(cp, kernel.with_entries(compiled.entries), str(compiled.path))
    inputs = problem.random_inputs(0)
    arrays = {}
    for operand in kernel.operands:
        if operand.name in inputs:
            arrays[operand.name] = cp.asarray(inputs[operand.name])
        else:
            arrays[operand.name] = cp.zeros(operand.shape, dtype=operand.dtype.storage)
    launch(arrays)
    cp.cuda.runtime.deviceSynchronize()
    cp.cuda.profiler.start()
    launch(arrays)
    cp.cuda.runtime.deviceSynchronize()
    cp.cuda.profiler.stop()


def main(arguments: Sequence[str]) -> int:
    """Launch the kernel of a key. Exit status 2 if the plan has no kernel for the key."""
    import cupy

    folder, key = arguments
    with scratch() as unpacked:
        try:
            launch_once(load(Path(folder), Path(unpacked)), KERNELS[key], cupy)
        except (KeyError, ValueError) as error:
            print(f"benchmarks.gpu.plan.counters: {error}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
