"""The unmodified output of other kernel compilers is verified without a GPU."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import forked_python
import numpy as np
import pytest
from needs import needs_compiler

from autosched.cli import main
from autosched.verify.emulate.emulate import TensorMapOf, emulate
from autosched.verify.emulate.emulated_launch import EmulatedLaunch
from autosched.verify.emulate.kernel_files import front_end_of

PROGRAMS = Path(__file__).parent / "programs"
NUMBA = ["null", "null", "100", "4"]  # Numba's fields before an array's pointer


def arguments(kind: str, last: str) -> list[str]:
    """Return the arguments of a kernel that computes ``out = x + 2 y``, as the compiler expects them.

    x, y and out have 100 elements.
    """
    arrays = ["range f32[100]", "ones f32[100]", last]
    if kind == "numba":
        return [each for array in arrays for each in (*NUMBA, array, "100", "4")]
    if kind == "cutile":
        return [each for array in arrays for each in (array, "100", "1")]
    return arrays


# columns: kind, package, file name, blocks, threads per block, position of out among the arguments, front end's name
KINDS = [
    ("numba", "numba.cuda", "add.ptx", "4", "32", 18, "numba-cuda"),
    ("cutile", "cuda.tile", "add.cubin", "1", "128", 6, "cuTile"),
    ("tilelang", "tilelang", "add.cu", "4", "32", 2, "TileLang"),
    ("cute", "nvidia_cutlass_dsl", "add.ptx", "4", "32", 2, "CuTe DSL"),
]


def installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


@needs_compiler
@pytest.mark.parametrize(("kind", "package", "name", "grid", "block", "out", "front_end"), KINDS)
def test_kernels_of_each_front_end_are_verified(
    kind: str,
    package: str,
    name: str,
    grid: str,
    block: str,
    out: int,
    front_end: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if not installed(package):
        pytest.skip(f"{package} is not installed")
    program, file = PROGRAMS / f"{kind}_add.py", tmp_path / name
    recognised = front_end_of(program)
    assert recognised is not None and recognised.name == front_end
    completed = forked_python.run(
        [sys.executable, str(program), str(file)],
        capture_output=True,
        text=True,
        timeout=250,
        env=environment(),
        cwd=tmp_path,  # CuTe writes PTX to the working folder
    )
    assert completed.returncode == 0 and file.exists(), completed.stdout + completed.stderr
    expected = tmp_path / "expected.npy"
    np.save(expected, np.arange(100, dtype=np.float32) + 2)
    command = ["verify", str(file), "--grid", grid, "--block", block]

    def options_of(last: str) -> list[str]:
        return [word for argument in arguments(kind, last) for word in ("-a", argument)]

    assert main([*command, *options_of("out f32[100]"), "--expect", f"{out}={expected}"]) == 0, capsys.readouterr()
    assert main([*command, *options_of("out f32[96]")]) == 1
    assert "out_of_bounds_global" in capsys.readouterr().out


def product(m: int, n: int, k: int, tmp_path: Path) -> EmulatedLaunch:
    """Compile CuTe DSL's matmul with tensor memory for sm_100a, and emulate it on integers.

    Sums of integers are exact in every order.
    """
    file = tmp_path / "gemm.ptx"
    command = [sys.executable, str(PROGRAMS / "cute_gemm.py"), str(file), str(m), str(n), str(k)]
    compiled = forked_python.run(
        command,
        capture_output=True,
        text=True,
        timeout=250,
        cwd=tmp_path,  # CuTe writes files to the working folder
        env={**environment(), "CUTE_DSL_ARCH": "sm_100a"},
    )
    assert compiled.returncode == 0, compiled.stdout + compiled.stderr
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    emulation = emulate(
        file.read_text(),
        # The first parameter holds the flags of the MMA operation. All flags are 0, because the kernel itself sets
        # negation and accumulation.
        arguments=[bytes(32), TensorMapOf(a, (128, 64), "128B"), TensorMapOf(b, (256, 64), "128B"),
                   np.zeros((m, n), np.float16)],
        grid=(m // 128, n // 256, 1), block=128, shared_bytes=227 * 1024, outputs=[3],
    )  # fmt: skip
    assert emulation.status in ("ok", "findings"), emulation.reason
    product = emulation.arrays[3]
    assert product is not None
    np.testing.assert_array_equal(product, a.astype(np.float32) @ b.astype(np.float32).T)
    return emulation


@needs_compiler
def test_a_matmul_of_cute_on_tensor_memory_is_right(tmp_path: Path) -> None:
    if not installed("nvidia_cutlass_dsl"):
        pytest.skip("nvidia_cutlass_dsl is not installed")
    emulation = product(256, 512, 320, tmp_path)
    assert "tcgen05.mma" in (tmp_path / "gemm.ptx").read_text()
    assert emulation.ok, emulation.reason
    # CuTe's pipelines omit tcgen05 fences, which is reported as a note, not as a fault.
    assert {str(note.kind) for note in emulation.notes} <= {"missing_tcgen05_fence"}


def environment() -> dict[str, str]:
    """Add CuTe's package folder to the path if pip installed it into a separate environment."""
    paths = [os.environ.get("PYTHONPATH", "")]
    spec = importlib.util.find_spec("nvidia_cutlass_dsl")
    for folder in spec.submodule_search_locations or () if spec else ():
        paths.append(str(Path(folder) / "dsl_packages"))
    for folder in (Path(p) / "nvidia" / "cu13" / "bin" for p in sys.path):
        if (folder / "tileiras").exists():
            return _environment(paths, str(folder))
    return _environment(paths, "")


def _environment(paths: list[str], programs: str) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PATH": os.pathsep.join(filter(None, [programs, os.environ.get("PATH", "")])),
        "CUTE_DSL_ARCH": "sm_90a",
    }
