"""A stand-in for the CUDA driver (``stand_in_driver.cpp``), whose launches return at once."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

DRIVER = "libcuda.so.1"
_SOURCE = Path(__file__).parent / "stand_in_driver.cpp"


def compiled_stand_in(folder: Path, name: str = DRIVER) -> Path:
    """Compile the stand-in into a folder.

    A process that has loaded it uses it as its driver, because it has the same library name. Raises RuntimeError
    without a C++ compiler.
    """
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise RuntimeError("the stand-in for the driver needs a C++ compiler: install g++")
    path = folder / name
    command = [compiler, "-std=c++17", "-O2", "-fPIC", "-shared", f"-Wl,-soname,{name}"]
    command += [str(_SOURCE), "-o", str(path), "-ldl"]
    subprocess.run(command, check=True)
    return path
