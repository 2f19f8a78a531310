"""NVRTC runs in a separate process with a time limit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import autosched
from measurements.compiler import ptx
from measurements.compiler.limits import MACHINE_CODE
from measurements.compiler.nvrtc import compile_to_ptx as compile_here
from measurements.compiler.pool import CompileFailure, CompilePool
from measurements.compiler.ptx import CompilerStopped, compile_to_ptx
from search_spaces.launches.generated_kernel import CompileLimits, GeneratedKernel
from search_spaces.launches.headers import Headers

SOURCE = '#include "scale.cuh"\nextern "C" __global__ void scale(float* x) { x[threadIdx.x] *= SCALE; }\n'
HEADERS = Headers.of({"scale.cuh": "#define SCALE 3.0f\n"})
# Each macro expands to the previous macro twice, so the last macro expands to 2^40 tokens.
DOUBLED = "\n".join(f"#define A{k} A{k - 1} A{k - 1}" for k in range(1, 41))
ENDLESS = f'#define A0 +1\n{DOUBLED}\nextern "C" __global__ void endless(int* x) {{ x[0] = 0 A40; }}\n'


def test_ptx_equals_a_compilation_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = compile_here(SOURCE, "scale", "compute_80", HEADERS)
    in_worker = compile_to_ptx(SOURCE, "scale", "compute_80", HEADERS)
    assert here.text == in_worker.text is not None and in_worker.entry == here.entry
    # Folders in options are relative to this process's working folder.
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "scale.cuh").write_text("#define SCALE 3.0f\n")
    monkeypatch.chdir(tmp_path)
    ptx = compile_to_ptx(SOURCE, "scale", "compute_80", Headers(()), ("-I", "own"))
    assert ptx.text is not None


def test_compile_errors_are_returned_in_the_log() -> None:
    output = compile_to_ptx("void kernel( {", "kernel", "compute_80", Headers(()))
    assert output.text is None and "error" in output.log


def test_a_compile_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_to_ptx(SOURCE, "scale", "compute_80", HEADERS)  # the first call starts the compiler process
    monkeypatch.setattr(ptx, "COMPILE_SECONDS", 0.5)
    with pytest.raises(CompilerStopped, match="not compiled within") as stopped:
        compile_to_ptx(ENDLESS, "endless", "compute_80", Headers(()))
    assert stopped.value.status == "compile_timeout"
    x = np.zeros(1, np.int32)
    done = autosched.emulate(ENDLESS, kernel="endless", arguments=(x,), grid=1, block=1)
    assert done.status == "compile_timeout" and done.reason == "not compiled within 0.5 CPU seconds"
    monkeypatch.undo()
    assert compile_to_ptx(SOURCE, "scale", "compute_80", HEADERS).text is not None


@pytest.mark.parametrize(
    ("limits", "status", "message"),
    [
        (CompileLimits(seconds=0.3), "compile_timeout", "took more than 0.3 CPU seconds"),
        (CompileLimits(memory=32 << 20), "compile_error", "took more than 0.031 GiB of memory"),
    ],
)
def test_a_compile_beyond_its_limits_is_ended_and_not_repeated(
    limits: CompileLimits, status: str, message: str
) -> None:
    starts = compile_to_ptx(SOURCE, "scale", "compute_80", HEADERS, limits=limits)
    assert starts.text is not None
    before = set(ptx.compiler_pids())
    with pytest.raises(CompilerStopped, match=message) as stopped:
        compile_to_ptx(ENDLESS, "endless", "compute_80", Headers(()), limits=limits)
    assert stopped.value.status == status and len(before - set(ptx.compiler_pids())) == 1
    kernel = GeneratedKernel(
        entry="endless",
        arguments=(),
        grid=(1, 1, 1),
        block=(1, 1, 1),
        source=ENDLESS.replace("int* x", ""),
        limits=limits,
    )
    with CompilePool(workers=1) as pool:
        refused = pool.compile(kernel, "sm_90")
    assert isinstance(refused, CompileFailure) and refused.status.value == status
    assert message.replace("0.3", f"{0.3 * MACHINE_CODE:g}") in refused.reason
