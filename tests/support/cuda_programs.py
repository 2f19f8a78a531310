"""Compile CUDA sources to executables, which all tests and later runs share, since nvcc takes a second for each."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from measurements.files.cache_folder import cache_root


def cuda_program(source: Path, *options: str) -> Path:
    """Return an executable that nvcc has compiled for sm_80, or for the architecture among ``options``.

    The source may include headers of its folder. ``options`` may name further files.
    """
    architecture = [] if any(option.startswith("-arch") for option in options) else ["-arch=sm_80"]
    command = ["nvcc", "-cudart", "shared", "-lineinfo", *architecture, str(source), *options]
    content = hashlib.sha256("\0".join((_nvcc_version(), *command)).encode())
    named = (Path(option) for option in options)
    for file in (source, *sorted(source.parent.glob("*.h")), *(path for path in named if path.is_file())):
        content.update(file.read_bytes())
    folder = cache_root() / "test-programs" / content.hexdigest()
    program = folder / source.stem
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            executable = Path(work, source.stem)
            done = subprocess.run([*command, "-o", str(executable)], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            os.replace(executable, program)
    return program


@cache
def _nvcc_version() -> str:
    return subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
