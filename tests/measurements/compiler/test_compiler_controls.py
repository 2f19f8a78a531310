"""Compiler controls (options of ptxas for one kernel) have an effect on the real ptxas."""

import dataclasses
from pathlib import Path

import pytest

from measurements.compiler.nvrtc import NvrtcMissing, toolchain_version
from measurements.compiler.pool import CompileCache, Compiled, CompileFailure, CompilePool
from measurements.compiler.ptxas import why_no_controls
from search_spaces.launches.control_file import ControlFile
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.templates.compiler_controls import CompilerControls

try:
    WHY = why_no_controls(toolchain_version())
except NvrtcMissing as missing:
    WHY = str(missing)
pytestmark = pytest.mark.skipif(WHY != "", reason=WHY)

SUMS = "".join(f"s[{i}] = s[{i}] * s[{(i * 7 + 3) % 40}] + s[{(i + 11) % 40}];" for i in range(40))
SOURCE = f"""extern "C" __global__ void __launch_bounds__(256) sums(float* a) {{
    float s[40];
    for (int i = 0; i < 40; ++i) s[i] = a[i * 256 + threadIdx.x];
    for (int n = 0; n < 3; ++n) {{ {SUMS} }}
    for (int i = 0; i < 40; ++i) a[i * 256 + threadIdx.x] = s[i];
}}"""
KERNEL = GeneratedKernel(entry="sums", grid=(1, 1, 1), block=(256, 1, 1), source=SOURCE, arguments=())


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> CompilePool:
    with CompilePool(CompileCache(tmp_path_factory.mktemp("cubins")), workers=1) as compile_pool:
        yield compile_pool


def compiled(pool: CompilePool, controls: CompilerControls, kernel: GeneratedKernel = KERNEL) -> Compiled:
    result = pool.compile(controls.applied(kernel), "sm_90a")
    assert isinstance(result, Compiled), result
    return result


def test_a_register_cap_changes_the_registers_of_the_cubin_also_above_launch_bounds(pool: CompilePool) -> None:
    free, capped = compiled(pool, CompilerControls()), compiled(pool, CompilerControls(max_registers=32))
    assert free.resources.registers > 32
    assert capped.resources.registers == 32
    assert capped.resources.spill_store_bytes > free.resources.spill_store_bytes
    assert capped.digest != free.digest


def test_an_optimisation_level_makes_another_cubin(pool: CompilePool) -> None:
    assert compiled(pool, CompilerControls(opt_level=1)).digest != compiled(pool, CompilerControls()).digest


def test_the_cache_keeps_the_cubins_of_different_controls_apart(pool: CompilePool) -> None:
    again = compiled(pool, CompilerControls(max_registers=32))
    assert again.resources.registers == 32
    assert compiled(pool, CompilerControls(max_registers=32)).cached


def test_a_control_file_reaches_ptxas_by_its_content(pool: CompilePool) -> None:
    controls = CompilerControls(file=ControlFile("broken.acf", b"hello"))
    result = pool.compile(controls.applied(KERNEL), "sm_90a")
    assert isinstance(result, CompileFailure)
    assert "controls file" in f"{result.reason} {result.log}"


def test_an_older_compiler_rejects_a_control_file_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("measurements.compiler.pool.toolchain_of", lambda options: "nvrtc 13.0.88")
    kernel = CompilerControls(file=ControlFile("a.acf", b"hello")).applied(KERNEL)
    with CompilePool(CompileCache(tmp_path), workers=1) as pool:
        result = pool.compile(kernel, "sm_90a")
    assert isinstance(result, CompileFailure)
    assert "13.3" in result.reason
    assert "\n" not in result.reason


@pytest.mark.parametrize(
    ("toolchain", "refused"),
    [
        ("nvrtc 13.3.73", False),
        ("nvrtc 14.0", False),
        ("nvcc 13.5.37", False),
        ("nvrtc 13.0.88", True),
        ("nvcc 12.8.93", True),
        ("nvcc of unknown version", True),
    ],
)
def test_compiler_controls_begin_with_cuda_13_3(toolchain: str, refused: bool) -> None:
    assert bool(why_no_controls(toolchain)) == refused


def test_pipelines_are_compiled_with_the_controls_of_their_kernel(pool: CompilePool) -> None:
    two = dataclasses.replace(KERNEL, source=SOURCE + SOURCE.replace("sums", "more"), then=(KERNEL.steps[0],))
    assert two.then
    results = compiled(pool, CompilerControls(max_registers=32), two)
    assert {step.resources.registers for step in results.steps} == {32}
