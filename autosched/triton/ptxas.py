"""What ptxas makes of a Triton kernel where PTX alone says less: the waits that it injects for wgmma."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import triton

from measurements.emulator import Emulation, Finding, FindingKind

_SECONDS = 120.0
# "(C7517) wgmma.wait_group is injected in around line 319 by compiler to allow use of registers defined by GMMA"
_INJECTED = "(C7517) wgmma.wait_group is injected"
_REGISTER = "a register of the wgmma"  # what the runtime says of such a use (isa/matrix/wgmma.cpp)


def with_injected_waits(emulation: Emulation, ptx: str, arch: int) -> Emulation:
    """Grade uses of registers that a wgmma still computes as notes, where ptxas waits for it before them."""
    if not any(_is_use(f) for f in emulation.findings) or not _injects_waits(ptx, arch):
        return emulation
    why = "; ptxas injects the wait"
    return emulation.with_findings(
        [replace(f, grade="note", message=f.message + why) if _is_use(f) else f for f in emulation.findings]
    )


def _is_use(finding: Finding) -> bool:
    return finding.kind is FindingKind.WGMMA_IN_FLIGHT and finding.is_fault and _REGISTER in finding.message


@lru_cache(maxsize=64)
def _injects_waits(ptx: str, arch: int) -> bool:
    """Compile with the ptxas that Triton would take; False where it says nothing of the kind, or cannot be run."""
    with tempfile.TemporaryDirectory(prefix="autosched-ptxas-") as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        command = [_ptxas(arch), "-v", f"--gpu-name=sm_{arch}a", str(source), "-o", str(Path(folder) / "kernel.cubin")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return False
    return done.returncode == 0 and _INJECTED in done.stderr


def _ptxas(arch: int) -> str:
    from triton.backends.nvidia import compiler

    tool: Callable[[int], object] = getattr(compiler, "get_ptxas", lambda _arch: triton.knobs.nvidia.ptxas)
    found = tool(arch)
    return str(getattr(found, "path", found))
