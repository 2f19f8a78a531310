"""Handle the wgmma waits that ptxas injects into Triton kernels, and that are therefore missing in the PTX."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import triton

from measurements.emulator import Emulation, Finding, FindingKind
from measurements.files.work_folders import temporary_folder

_SECONDS = 120.0
# "(C7517) wgmma.wait_group is injected in around line 319 by compiler to allow use of registers defined by GMMA"
_INJECTED = re.compile(r"\(C7517\) wgmma\.wait_group is injected in around line (\d+)")
_AROUND = 64  # maximum distance in PTX lines between a wait that ptxas reports and the register use that needs the wait
_PTX_LINE = re.compile(r"PTX line (\d+):")
# start of the emulator's message about a register used before the wait (isa/matrix/wgmma.cpp)
_REGISTER = "a register of the wgmma"


def with_injected_waits(emulation: Emulation, ptx: str, arch: int) -> Emulation:
    """Downgrade findings on registers of an unfinished wgmma to notes if ptxas injects a wait before the use."""
    if not any(_is_use(f) for f in emulation.findings):
        return emulation
    waits = _injected_waits(ptx, arch)
    why = "; ptxas injects the wait"
    return emulation.with_findings(
        [
            replace(f, grade="note", message=f.message + why) if _is_use(f) and _is_near(f, waits) else f
            for f in emulation.findings
        ]
    )


def _is_use(finding: Finding) -> bool:
    return finding.kind is FindingKind.WGMMA_IN_FLIGHT and finding.is_fault and _REGISTER in finding.message


def _is_near(finding: Finding, waits: tuple[int, ...]) -> bool:
    """Return True if ptxas injects a wait near the PTX line of a finding."""
    named = _PTX_LINE.match(finding.instruction)
    return named is not None and any(abs(int(named[1]) - line) <= _AROUND for line in waits)


@lru_cache(maxsize=64)
def _injected_waits(ptx: str, arch: int) -> tuple[int, ...]:
    """Return the PTX lines near which Triton's ptxas injects waits. Empty if ptxas cannot be run."""
    with temporary_folder("ptxas") as folder:
        source = folder / "kernel.ptx"
        source.write_text(ptx)
        command = [_ptxas(arch), "-v", f"--gpu-name=sm_{arch}a", str(source), "-o", str(folder / "kernel.cubin")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return ()
    return tuple(int(line) for line in _INJECTED.findall(done.stderr)) if done.returncode == 0 else ()


def _ptxas(arch: int) -> str:
    from triton.backends.nvidia import compiler

    tool: Callable[[int], object] = getattr(compiler, "get_ptxas", lambda _arch: triton.knobs.nvidia.ptxas)
    path = tool(arch)
    return str(getattr(path, "path", path))
