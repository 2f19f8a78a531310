"""Every entry point for CUDA source tries NVRTC first, and nvcc if NVRTC fails."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

import autosched
from autosched.cli.app import run
from autosched.user_kernels.user_kernel import KernelSpec
from measurements.compiler import compiler_choice
from measurements.compiler.compiler_choice import choose_compiler
from measurements.compiler.nvrtc import NVCC, PtxOutput

pytestmark = [needs_nvrtc, needs_compiler]
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")

# Only nvcc finds <sys/param.h>, a header of the host.
SOURCE = """
#include <HEADER>
extern "C" __global__ void k(float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = VALUE; }
"""
OF_HOST = SOURCE.replace("HEADER", "sys/param.h").replace("VALUE", "MAXPATHLEN")
OF_NOBODY = SOURCE.replace("HEADER", "of/nobody.h").replace("VALUE", "1")
OF_NVRTC = SOURCE.replace("HEADER", "cuda_fp16.h").replace("VALUE", "1")
WITH_HOST_CODE = "\nint main() { k<<<1, 32>>>(nullptr, 0); }\n"
KERNEL_FILE = """
[kernel]
name = "NAME"
source = "k.cu"
entry = "k"
[parameters]
block = [32]
[sizes]
n = 32
[launch]
grid = 1
block = "block"
[[argument]]
name = "y"
kind = "output"
dtype = "f32"
shape = "n"
[[argument]]
name = "n"
kind = "scalar"
value = "n"
[reference]
python = "reference.py:reference"
"""


def emulated(source: str, folder: Path, database: Path) -> int:
    """Emulate a source and return the exit status that a command would have: 2 if the source does not compile."""
    emulation = autosched.emulate(source, arguments=[np.zeros(32, np.float32), 32], grid=1, block=32)
    logging.getLogger("measurements").error(emulation.reason)
    return 2 if emulation.status == "compile_error" else 0


def verified(source: str, folder: Path, database: Path) -> int:
    return _verified(source, folder / "k.cu")


def verified_as_cpp(source: str, folder: Path, database: Path) -> int:
    return _verified(source, folder / "k.cpp")


def verified_with_host_code(source: str, folder: Path, database: Path) -> int:
    return _verified(source + WITH_HOST_CODE, folder / "k.cu")


def _verified(source: str, file: Path) -> int:
    file.write_text(source)
    return run(["verify", str(file), "-a", "out f32[32]", "-a", "32", "--grid", "1", "--block", "32"])


def kernel_file_verified(source: str, folder: Path, database: Path) -> int:
    return run(["verify", str(_kernel_file(source, folder)), "--device", "h100", "--sample", "1"])


def kernel_file_tuned(source: str, folder: Path, database: Path) -> int:
    file = str(_kernel_file(source, folder))
    return run(["tune", "--kernel", file, "--device", "h100", "--trials", "1", "--db", str(database), "--no-verify"])


def _kernel_file(source: str, folder: Path) -> Path:
    value = 4096 if source == OF_HOST else 1
    (folder / "k.cu").write_text(source)
    (folder / "reference.py").write_text(
        f"import numpy as np\ndef reference(n=32): return np.full(32, {value}, 'f4')\n"
    )
    file = folder / "k.toml"
    file.write_text(KERNEL_FILE.replace("NAME", folder.name.replace("_", "-")[:60]))
    return file


ENTRY_POINTS = [
    emulated, verified, verified_as_cpp, verified_with_host_code, kernel_file_verified, kernel_file_tuned
]  # fmt: skip


@pytest.fixture(autouse=True)
def forgotten() -> None:
    """Clear the caches of earlier compiler choices and of log messages."""
    compiler_choice._log_once.cache_clear()
    compiler_choice.compiler_of_headers.cache_clear()


@pytest.fixture
def nvcc_lookups(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which every search for an installed nvcc appends an item."""
    questions: list[str] = []

    def installed() -> bool:
        questions.append("nvcc")
        return True

    monkeypatch.setattr(compiler_choice, "_nvcc_installed", installed)
    return questions


@needs_nvcc
@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_nvcc_compiles_host_code_and_one_line_reports_it(
    entry_point: Callable[..., int], tmp_path: Path, capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    with _stderr_of_library(entry_point):
        assert entry_point(OF_HOST, tmp_path, tmp_path / "b.db") == 0
    lines = [line for line in capfd.readouterr().err.splitlines() if "nvcc" in line]
    assert len(lines) == 1
    assert "sys/param.h" in lines[0]
    assert not list(recwarn)


@needs_nvcc
@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_a_missing_header_stays_with_nvrtc_and_names_the_option(
    entry_point: Callable[..., int], tmp_path: Path, capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    with _stderr_of_library(entry_point):
        assert entry_point(OF_NOBODY, tmp_path, tmp_path / "b.db") == 2
    stderr = capfd.readouterr().err.strip()
    assert "nvcc compiles" not in stderr
    assert "of/nobody.h" in stderr and "include" in stderr and "-I" in stderr
    assert len(stderr.splitlines()) == 1
    assert not list(recwarn)


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_nvcc_is_not_called_if_nvrtc_compiles(
    entry_point: Callable[..., int], nvcc_lookups: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with _stderr_of_library(entry_point):
        assert entry_point(OF_NVRTC, tmp_path, tmp_path / "b.db") == 0
    assert not nvcc_lookups
    assert "nvcc" not in capfd.readouterr().err


class _stderr_of_library:
    """Print the library's log on stderr for the entry point ``emulated``. Commands print the log themselves."""

    def __init__(self, entry_point: Callable[..., int]) -> None:
        self._handler = logging.StreamHandler() if entry_point is emulated else logging.NullHandler()

    def __enter__(self) -> None:
        logging.getLogger("measurements").addHandler(self._handler)

    def __exit__(self, *error: object) -> None:
        logging.getLogger("measurements").removeHandler(self._handler)


@needs_nvcc
def test_a_kernel_file_of_a_host_header_has_nvcc_among_its_options(caplog: pytest.LogCaptureFixture) -> None:
    assert NVCC in _spec(OF_HOST).template.compile_options
    assert NVCC not in _spec(OF_NOBODY).template.compile_options
    assert NVCC not in _spec(OF_NVRTC).template.compile_options
    assert NVCC not in _spec(OF_HOST, compiler="nvrtc").template.compile_options
    in_a_condition = (
        OF_HOST.replace("#include", "#if 0\n#include").replace("h>", "h>\n#endif").replace("MAXPATHLEN", "1")
    )
    assert NVCC not in _spec(in_a_condition).template.compile_options
    assert len(caplog.records) == 1


def _spec(source: str, **more: Any) -> KernelSpec:
    return KernelSpec(
        source,
        name="of_headers",
        entry="k",
        parameters={"block": [32]},
        sizes={"n": 32},
        grid=1,
        block="block",
        arguments=[
            {"name": "y", "kind": "output", "dtype": "f32", "shape": "n"},
            {"name": "n", "kind": "scalar", "value": "n"},
        ],
        reference=lambda: np.ones(32, np.float32),
        **more,
    )


MISSING = 'k.cu(1): catastrophic error: cannot open source file "a.h"'
WRONG = 'k.cu(3): error: identifier "x" is undefined'


@pytest.mark.parametrize(
    ("nvrtc", "nvcc", "host_code", "by_nvcc"),
    [
        ("", None, False, False),
        ("", None, True, False),
        (WRONG, None, False, False),  # nvcc is not tried
        (WRONG, "", True, True),
        (WRONG, WRONG, True, True),
        (MISSING, "", False, True),
        (MISSING, WRONG, False, True),  # nvcc found a.h, so nvcc's error is reported
        (MISSING, "k.cu:1:10: fatal error: a.h: No such file or directory", False, False),
        (MISSING, "nvcc fatal   : Unsupported gpu architecture 'compute_120'", False, False),
        (WRONG, "error: nvcc did not end", True, False),
    ],
)
def test_the_compiler_is_chosen_by_the_logs(
    nvrtc: str, nvcc: str | None, host_code: bool, by_nvcc: bool, nvcc_lookups: list[str]
) -> None:
    def output(log: str | None) -> PtxOutput:
        assert log is not None, "nvcc was called"
        return PtxOutput(None if log else "ptx", "k", log, 0.1)

    choice = choose_compiler(lambda: output(nvrtc), lambda: output(nvcc), host_code=host_code)
    assert choice.by_nvcc == by_nvcc
    assert choice.output.log == (nvcc if by_nvcc else nvrtc)
    assert bool(choice.reason) == by_nvcc
