"""Compiler controls of ptxas: check that a compiler supports them, and pass it a control file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from measurements.files.work_folders import temporary_folder
from search_spaces.launches.control_file import PTXAS, control_file_of, without_control_file

SINCE = (13, 3)  # CUDA version whose ptxas has --apply-controls


def why_no_controls(toolchain: str) -> str:
    """Return the reason why a compiler does not support compiler controls, and the remedy, in one line; "" if it does.

    Args:
        toolchain: Compiler and version, such as "nvrtc 13.5.37".
    """
    version = re.fullmatch(r"\w+ (\d+)\.(\d+)(?:\.\d+)*", toolchain)
    if version is not None and (int(version[1]), int(version[2])) >= SINCE:
        return ""
    needed = ".".join(map(str, SINCE))
    package = "the CUDA toolkit" if toolchain.startswith("nvcc") else "nvidia-cuda-nvrtc"
    return f"compiler controls need CUDA {needed} or newer, not {toolchain}: update {package}, or remove the controls"


def why_not_compiled(options: Sequence[str], toolchain: str) -> str:
    """Return the reason why a compiler cannot use these options, in one line; "" if it can.

    Every ptxas supports a register cap and an optimisation level, so schedules with only these options compile with any
    compiler.
    """
    try:
        return "" if control_file_of(options) is None else why_no_controls(toolchain)
    except ValueError as error:
        return str(error)


@contextmanager
def control_file_written(options: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the options for NVRTC or nvcc. Compiler controls are written to a temporary file that the options name."""
    file = control_file_of(options)
    if file is None:
        yield tuple(options)
        return
    with temporary_folder("controls") as folder:
        path = folder / "controls"
        path.write_bytes(file.content)
        yield (*without_control_file(options), f"{PTXAS}--apply-controls={path}")
