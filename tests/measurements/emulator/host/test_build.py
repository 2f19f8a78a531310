"""The emulator compiles, caches and runs kernels. Other files test single instructions."""

from __future__ import annotations

import dataclasses
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from measurements.compiler.nvrtc import NvrtcMissing
from measurements.emulator import (
    Emulation,
    HostCompilerMissing,
    HostFailure,
    cache_folder,
    check_host,
    emulate,
    host_compiler,
)
from measurements.emulator.host import build
from measurements.emulator.host.build import runner
from measurements.emulator.ptx import build as ptx_build
from measurements.emulator.ptx.build import compile_to_bytecode
from search_spaces.hardware.dtypes import F32, SCALAR_DTYPES
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers
from search_spaces.launches.launch import ScalarArgument
from search_spaces.launches.operand import Operand

Run = Callable[..., Emulation]

SOURCE = """#include "common.cuh"
extern "C" __global__ void kernel(const float* a, float* o) {
  st_global(o + threadIdx.x, packet(SCALE * load(a + threadIdx.x)));
}
"""
ARGUMENTS = (Operand("a", "input", F32, (32,)), Operand("o", "output", F32, (32,)))
INPUTS = {"a": np.arange(32, dtype=np.float32)}


def source(scale: float) -> str:
    return SOURCE.replace("SCALE", f"{scale}f")


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set up a cache folder that contains only the runner, and return it."""
    built = runner()
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path))
    (cache_folder() / built.name).hardlink_to(built)
    return cache_folder()


def test_result_and_times(run: Run) -> None:
    emulation = run(source(2.0), ARGUMENTS, INPUTS)
    assert emulation.ok and emulation.reason == "" and emulation.log == ""
    np.testing.assert_array_equal(emulation.outputs["o"], 2 * INPUTS["a"])
    assert emulation.outputs["o"].dtype == np.float32
    assert emulation.seconds == emulation.compile_seconds + emulation.run_seconds > 0


def test_compiled_object_is_reused_until_something_changes(
    empty_cache: Path, kernel_of: Callable[..., GeneratedKernel], tmp_path: Path
) -> None:
    header = tmp_path / "include" / "own.cuh"
    header.parent.mkdir()
    header.write_text("#define SCALE 3.0f\n")
    base = kernel_of('#include "own.cuh"\n' + SOURCE, ARGUMENTS)

    def kernel() -> GeneratedKernel:
        return dataclasses.replace(base, headers=base.headers | Headers.from_folder(header.parent))

    first, second = emulate(kernel(), INPUTS), emulate(kernel(), INPUTS)
    assert (first.from_cache, second.from_cache) == (False, True)
    np.testing.assert_array_equal(second.outputs["o"], 3 * INPUTS["a"])
    header.write_text("#define SCALE 4.0f\n")
    third = emulate(kernel(), INPUTS)
    assert not third.from_cache
    np.testing.assert_array_equal(third.outputs["o"], 4 * INPUTS["a"])


def test_another_nvrtc_or_option_is_another_program(
    empty_cache: Path, kernel_of: Callable[..., GeneratedKernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = kernel_of(source(5.0), ARGUMENTS)
    first = compile_to_bytecode(kernel)
    defined = compile_to_bytecode(dataclasses.replace(kernel, compile_options=("-DANYTHING",)))
    monkeypatch.setattr(ptx_build, "check_nvrtc", lambda: "nvrtc 99.0")
    other = compile_to_bytecode(kernel)
    assert len({first.path, defined.path, other.path}) == 3


def test_the_object_is_independent_of_the_header_folder(
    empty_cache: Path, kernel_of: Callable[..., GeneratedKernel], tmp_path: Path
) -> None:
    base = kernel_of(
        '#include <own.cuh>\nextern "C" __global__ void kernel(const float* a, float* o) { store(o); }', ARGUMENTS
    )
    text = '#pragma once\n#include "common.cuh"\ninline void store(float* o) { st_global(o + 32, packet(1)); }'
    compiled = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "own.cuh").write_text(text)
        kernel = dataclasses.replace(base, headers=base.headers | Headers.from_folder(tmp_path / folder))
        compiled.append(compile_to_bytecode(kernel))
    assert compiled[0].path == compiled[1].path and compiled[1].from_cache
    findings = emulate(kernel, INPUTS).findings
    assert [(f.file, f.line) for f in findings if f.line] == [("own.cuh", 3)]


def test_many_threads_compile_one_kernel(empty_cache: Path, kernel_of: Callable[..., GeneratedKernel]) -> None:
    kernel = kernel_of(source(6.0), ARGUMENTS)
    with ThreadPoolExecutor(4) as pool:
        paths = {c.path for c in pool.map(lambda _: compile_to_bytecode(kernel), range(4))}
    assert len(paths) == 1
    assert sorted(p.suffix for p in empty_cache.iterdir() if not p.name.startswith("runner")) == [".program"]


def test_cache_is_pruned_oldest_first(
    empty_cache: Path, kernel_of: Callable[..., GeneratedKernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = build.runner()
    names = {"old.program": 30000, "older.o": 40000, "runner-old": 50000, "new.program": 10, here.name: 60000}
    for name, age in names.items():
        path = empty_cache / name
        if path != here:
            path.write_bytes(bytes(1000))
        os.utime(path, (time.time() - age, time.time() - age))
    assert build.runner() == here  # this call updates the time at which the runner was last used
    monkeypatch.setattr(build, "CACHE_BYTES", 1)
    monkeypatch.setattr(build, "_added", itertools.count())  # the next program counts as this process's first
    compiled = compile_to_bytecode(kernel_of(source(7.0), ARGUMENTS))
    remaining = {"new.program", compiled.path.name, here.name}
    assert {
        p.name for p in empty_cache.iterdir() if p.suffix in (".program", ".o") or p.name.startswith("runner-")
    } == remaining
    monkeypatch.setattr(build, "CACHE_BYTES", 10**9)


def test_an_unusable_cache_folder_is_reported_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(HostFailure, match="set AUTOSCHED_CACHE_DIR"):
        cache_folder()


def test_cache_follows_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUTOSCHED_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "autosched" / "emulator"


def test_a_missing_compiler_is_reported_in_one_line(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostCompilerMissing, match="neither g\\+\\+ nor clang\\+\\+") as error:
        run(source(8.0), ARGUMENTS, INPUTS)
    assert "\n" not in str(error.value)


def test_compiler_is_described() -> None:
    compiler = host_compiler()
    assert Path(compiler.path).exists() and compiler.identity


def test_compile_error_shows_the_failing_line(run: Run) -> None:
    emulation = run(source(9.0).replace("packet(", "pocket("), ARGUMENTS, INPUTS)
    assert emulation.status == "compile_error"
    assert emulation.reason.startswith("kernel.cu:3:")
    assert "\n" not in emulation.reason and "pocket" in emulation.log
    assert emulation.outputs == {} and emulation.findings == ()


def test_failed_static_assert_gives_its_message(run: Run) -> None:
    text = source(9.0).replace("st_global(", 'static_assert(sizeof(*a) == 2, "rule width: two bytes"); st_global(')
    assert "rule width: two bytes" in run(text, ARGUMENTS, INPUTS).reason


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("const float* a", "the kernel takes 1 arguments, not 2"),
        ("const float* a, int o", "parameter 1 of the kernel must have as many bytes as its argument: 4, not 8"),
    ],
)
def test_entry_must_fit_the_arguments(run: Run, parameters: str, message: str) -> None:
    emulation = run(f'extern "C" __global__ void kernel({parameters}) {{}}', ARGUMENTS, INPUTS)
    assert emulation.status == "compile_error" and message in emulation.reason


def test_an_undefined_function_is_unsupported(run: Run) -> None:
    text = "void elsewhere();\n" + source(1.0).replace("st_global(", "elsewhere(); st_global(")
    emulation = run(text, ARGUMENTS, INPUTS)
    assert emulation.status == "unsupported" and "elsewhere" in emulation.reason


def test_launches_from_the_device_are_rejected_by_name(run: Run) -> None:
    text = """
    extern "C" void* __cudaCDP2GetParameterBufferV2(void*, dim3, dim3, unsigned);
    """ + source(1.0).replace("st_global(", "__cudaCDP2GetParameterBufferV2(0, dim3(1), dim3(32), 0); st_global(")
    emulation = run(text, ARGUMENTS, INPUTS)
    assert emulation.status == "unsupported" and "launches from device code" in emulation.reason


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, r"inputs must be \['a'\], not \[\]"),
        ({"a": np.zeros(31, np.float32)}, r"input a must be float32 of shape \(32,\), not float32 of shape \(31,\)"),
        ({"a": np.zeros(32)}, "not float64"),
    ],
)
def test_inputs_are_checked(run: Run, inputs: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(source(1.0), ARGUMENTS, inputs)


@pytest.mark.parametrize("launch", [{"block": 1025}, {"block": 0}, {"grid": 0}, {"shared": -1}, {"time_limit": 0}])
def test_launches_are_checked(run: Run, launch: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"not|must|invalid"):
        run(source(1.0), ARGUMENTS, INPUTS, **launch)


def test_kernel_name_is_checked(kernel_of: Callable[..., GeneratedKernel]) -> None:
    base = kernel_of(source(1.0), ARGUMENTS)
    with pytest.raises(ValueError, match="C identifier"):
        dataclasses.replace(base, entry="a b; c")


def test_values_are_passed_with_the_position_and_type_of_their_parameter(
    kernel_of: Callable[..., GeneratedKernel],
) -> None:
    text = """#include "common.cuh"
    template <class T, int N>
    __global__ void scale(bool on, T factor, const float* a, long long start, float* o) {
      const int i = threadIdx.x;
      st_global(o + i, packet(on ? factor * *(a + i) + N * (start == -(1LL << 40)) : 0.0f));
    }
    """
    kernel = kernel_of(
        text,
        (
            ScalarArgument("on", SCALAR_DTYPES["bool"], True),
            ScalarArgument("factor", SCALAR_DTYPES["f64"], 0.5),
            ARGUMENTS[0],
            ScalarArgument("start", SCALAR_DTYPES["i64"], -(1 << 40)),
            ARGUMENTS[1],
        ),
    )
    emulation = emulate(
        dataclasses.replace(kernel, entry="scale<double, WANTED>", compile_options=("-DWANTED=7",)), INPUTS
    )
    assert emulation.ok, emulation.reason
    np.testing.assert_array_equal(emulation.outputs["o"], 0.5 * INPUTS["a"] + 7)
    narrow = dataclasses.replace(kernel, entry="scale<float, 7>")
    assert "as many bytes as its argument" in emulate(narrow, INPUTS).reason


def test_without_nvrtc_this_machine_is_to_blame(
    kernel_of: Callable[..., GeneratedKernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> str:
        raise NvrtcMissing("no library")

    monkeypatch.setattr("measurements.compiler.ptx.ptx_toolchain", missing)
    with pytest.raises(HostFailure, match="NVRTC was not found") as error:
        emulate(kernel_of(source(1.0), ARGUMENTS), INPUTS)
    assert "\n" not in str(error.value) and "pip install" in str(error.value)
    with pytest.raises(HostFailure, match="NVRTC was not found"):
        check_host()
    assert check_host(source=False) == host_compiler()


def test_runner_dies_with_its_parent(tmp_path: Path) -> None:
    """If the process that started a launch is killed, the launch ends, too."""
    runner()
    script = tmp_path / "parent.py"
    text = 'extern "C" __global__ void kernel() { while (true) {} }'
    script.write_text(
        "from search_spaces.launches.generated_kernel import GeneratedKernel\n"
        "from measurements.emulator import emulate\n"
        f"kernel = GeneratedKernel(entry='kernel', source={text!r}, arguments=(), grid=(1, 1, 1), block=(1, 1, 1))\n"
        "emulate(kernel, {})\n"
    )
    parent = subprocess.Popen(
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )

    def children() -> list[int]:
        listing = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        return [int(pid) for pid in listing.read_text().split()] if listing.exists() else []

    def is_runner(pid: int) -> bool:
        try:
            return "runner-" in Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            return False

    try:
        deadline = time.monotonic() + 30
        runners: list[int] = []
        while not runners and time.monotonic() < deadline:
            runners = [pid for pid in children() if is_runner(pid)]
            time.sleep(0.02)
        assert runners
        parent.kill()
        parent.wait()
        while any(map(is_runner, runners)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not any(map(is_runner, runners))
    finally:
        parent.kill()
        parent.wait()


@pytest.mark.parametrize("digest", [build.emulator_version, ptx_build._translator.__wrapped__])
def test_programs_kept_by_another_translator_are_not_read(
    digest: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest of cached programs covers all code that translates PTX, in any folder."""
    read: set[Path] = set()
    plain = Path.read_bytes

    def reading(path: Path) -> bytes:
        read.add(path)
        return plain(path)

    monkeypatch.setattr(Path, "read_bytes", reading)
    digest()
    assert set(Path(ptx_build.__file__).parent.rglob("*.py")) <= read
