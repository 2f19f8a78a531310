"""Marks for tests that need software which may be missing on a machine."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from measurements.compiler.nvrtc import NvrtcMissing, cuda_include_folders, toolchain_version

LENGTHS_RECORDED = (13, 3)  # from this release of NVRTC on, machine code has about the recorded lengths


def _nvrtc_missing() -> bool:
    try:
        toolchain_version()
    except NvrtcMissing:
        return True
    return False


def _older_code() -> bool:
    return not _nvrtc_missing() and tuple(map(int, toolchain_version().split()[1].split(".")[:2])) < LENGTHS_RECORDED


def cpp_compiler() -> str:
    """Return a C++ compiler of the host; skip the test if there is none."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    return compiler or pytest.skip("no host C++ compiler")


needs_nvrtc = pytest.mark.skipif(_nvrtc_missing(), reason="NVRTC is not installed")
needs_recorded_lengths = pytest.mark.skipif(
    _older_code(), reason="code lengths were recorded with NVRTC 13.3 or newer: pip install -U nvidia-cuda-nvrtc"
)
# An installation of cupy includes only some of CUDA's headers.
CUDA_HEADERS = any(Path(folder, "cuda_fp16.h").exists() for folder in cuda_include_folders())
needs_cuda_headers = pytest.mark.skipif(
    not CUDA_HEADERS, reason="CUDA's headers are not installed: pip install nvidia-cuda-runtime"
)
needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="there is no g++")


def _in_torch(path: str) -> bool:
    spec = find_spec("torch")
    return any(Path(folder, path).exists() for folder in (spec and spec.submodule_search_locations) or ())


# Check without importing: these packages take seconds to import, and collection imports every test module.
needs_helion = pytest.mark.skipif(
    not all(map(find_spec, ("torch", "triton", "helion"))),
    reason="Helion is not installed: pip install 'autosched[helion]'",
)
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'autosched[ray]'")
needs_matplotlib = pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")
needs_torch = pytest.mark.skipif(
    find_spec("torch") is None, reason="torch is not installed: pip install 'autosched[torch]'"
)
needs_inductor_choices = pytest.mark.skipif(
    not (_in_torch("_inductor/lookup_table") and find_spec("triton")),
    reason="torch or Triton is not installed, or torch is older than Inductor's lookup tables",
)
