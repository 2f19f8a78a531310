"""Generated kernels that may begin before the preceding kernel in their stream has ended.

Starting a grid takes a large part of a short kernel's time. Programmatic dependent launch hides it: the blocks are
placed while the preceding kernel still runs, and wait for its results with ``griddepcontrol.wait``. Decision 17
(docs/decisions) says when it is used.
"""

from __future__ import annotations

import re
from dataclasses import replace

from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import OUR_PACKAGE

HEADER = "autosched/ptx/grid_dependency.cuh"
WAIT = "autosched::ptx::wait_for_grids_before();"
LAUNCH = "autosched::ptx::launch_grids_behind();"
# A kernel that waited may let the next one begin at once: all earlier kernels have ended.
_BEGIN = f"  {WAIT}\n  {LAUNCH}\n"
_FUNCTION = re.compile(r'(?:^|\n)extern "C" __global__ [^{;]*\{\n')


def can_depend(kernel: GeneratedKernel, device: Device) -> bool:
    """Return True if ``made_dependent`` can convert the kernel."""
    entries = {step.entry for step in kernel.steps}
    ours = HEADER in dict(kernel.headers.files) and len(_FUNCTION.findall(kernel.source)) == len(entries)
    return ours and device.has("programmatic_launch") and not any(step.cooperative for step in kernel.steps)


def made_dependent(kernel: GeneratedKernel, device: Device) -> GeneratedKernel:
    """Return the kernel for a launch that depends on the preceding one in its stream.

    It first waits for that launch, and then lets the next one begin. Without the launch attribute it computes the same
    result.

    Args:
        kernel: A kernel of one of autosched's templates, or of a tile program.
        device: The GPU that it is for.

    Raises:
        ValueError: If the device has no programmatic dependent launch, or the kernel is not one of autosched's.
    """
    if not device.has("programmatic_launch"):
        raise ValueError(f"{device.name} has no programmatic dependent launch, which GPUs have from sm_90 on")
    if not can_depend(kernel, device):
        raise ValueError(f"{kernel.name} is not a kernel that {OUR_PACKAGE} generates: it has to wait by itself")
    source = f"#include <{HEADER}>\n" + _FUNCTION.sub(lambda match: match[0] + _BEGIN, kernel.source)
    then = tuple(replace(step, dependent=True) for step in kernel.then)
    return replace(kernel, source=source, dependent=True, then=then)
