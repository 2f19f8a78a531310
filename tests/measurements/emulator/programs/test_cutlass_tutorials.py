"""CUTLASS's tutorials for tensor memory (examples/cute/tutorial/blackwell), whole programs that compare their own
result: right in the emulator. ``CUTLASS_PATH`` names a checkout; a program takes half a minute of nvcc."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from needs import needs_compiler

CUTLASS = Path(os.environ.get("CUTLASS_PATH", "")) if "CUTLASS_PATH" in os.environ else None
TUTORIALS = "examples/cute/tutorial/blackwell"

pytestmark = [
    needs_compiler,
    pytest.mark.nightly,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc compiles the programs"),
    pytest.mark.skipif(CUTLASS is None, reason="CUTLASS_PATH names no checkout of CUTLASS"),
]

# What they leave out by the letter of the PTX ISA: all of them tcgen05.wait::ld, before memory is freed, too, and the
# first, whose threads copy its operands, the proxy fence behind their stores.
LEFT_OUT = {"tcgen05_in_flight"}
FIRST = LEFT_OUT | {"missing_proxy_fence"}


@pytest.mark.parametrize(
    ("name", "m", "n", "k", "left_out"),
    [
        ("01_mma_sm100", 128, 256, 128, FIRST),
        ("02_mma_tma_sm100", 128, 256, 128, LEFT_OUT),
        ("03_mma_tma_multicast_sm100", 512, 1024, 64, LEFT_OUT),
        ("04_mma_tma_2sm_sm100", 512, 1024, 64, LEFT_OUT),
        ("05_mma_tma_epi_sm100", 512, 1024, 64, LEFT_OUT),
    ],
)
def test_tutorial(name: str, m: int, n: int, k: int, left_out: set[str], tmp_path: Path) -> None:
    assert CUTLASS is not None
    program, report = tmp_path / name, tmp_path / "report.json"
    includes = (f"-I{CUTLASS / part}" for part in ("include", "tools/util/include", "examples/common"))
    subprocess.run(
        [
            *("nvcc", "-std=c++17", "-O1", "-cudart", "shared", "--expt-relaxed-constexpr", *includes),
            *("-gencode", "arch=compute_100a,code=compute_100a"),
            *(str(CUTLASS / TUTORIALS / f"{name}.cu"), "-o", str(program)),
        ],
        check=True,
    )
    command = [sys.executable, "-m", "autosched", "run", "--device", "b200", "--report", str(report)]
    done = subprocess.run([*command, str(program), str(m), str(n), str(k)], capture_output=True, text=True, check=False)
    assert "Execution is successful." in done.stdout, done.stdout + done.stderr
    found = json.loads(report.read_text())
    assert not found["lacking"]
    assert {f["kind"] for f in found["findings"] if f["grade"] == "fault"} <= left_out
