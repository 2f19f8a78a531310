"""A fake CUDA driver (``stand_in_driver.cpp``), whose launches return immediately."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

DRIVER = "libcuda.so.1"
_SOURCE = Path(__file__).parent / "stand_in_driver.cpp"


def compiled_stand_in(folder: Path, name: str = DRIVER) -> Path:
    """Compile the fake driver into a folder.

    The library has the name of the real driver. So a process that has loaded the library uses it as the driver. Raises
    RuntimeError without a C++ compiler.
    """
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise RuntimeError("the fake driver needs a C++ compiler: install g++")
    path = folder / name
    command = [compiler, "-std=c++17", "-O2", "-fPIC", "-shared", f"-Wl,-soname,{name}"]
    command += [str(_SOURCE), "-o", str(path), "-ldl"]
    subprocess.run(command, check=True)
    return path
