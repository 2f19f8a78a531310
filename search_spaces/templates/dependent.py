"""Generated kernels that may begin before the kernel in front of them in their stream has ended.

The start of a grid takes a short kernel a good part of its time. With programmatic dependent launch it is hidden: the
blocks are placed while the kernel in front still runs, and wait for its results by ``griddepcontrol.wait``. Decision 17
(docs/decisions) says when it is done.
"""

from __future__ import annotations

import re
from dataclasses import replace

from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import OUR_PACKAGE

DEPENDENT_SINCE = 90  # compute capability
HEADER = "autosched/ptx/grid_dependency.cuh"
WAIT = "autosched::ptx::wait_for_grids_before();"
LAUNCH = "autosched::ptx::launch_grids_behind();"
# A kernel that waited is free to let the next one begin at once: whatever lies further back has ended.
_BEGIN = f"  {WAIT}\n  {LAUNCH}\n"
_FUNCTION = re.compile(r'(?:^|\n)extern "C" __global__ [^{;]*\{\n')


def can_depend(kernel: GeneratedKernel, device: Device) -> bool:
    """Whether ``made_dependent`` can make one of the kernel."""
    entries = {step.entry for step in kernel.steps}
    ours = HEADER in dict(kernel.headers.files) and len(_FUNCTION.findall(kernel.source)) == len(entries)
    return ours and device.sm >= DEPENDENT_SINCE and not any(step.cooperative for step in kernel.steps)


def made_dependent(kernel: GeneratedKernel, device: Device) -> GeneratedKernel:
    """Return the kernel for a launch that depends on the one in front of it in its stream.

    It waits for that one before it does anything else, then lets the next one begin. Launched without the attribute it
    computes the same.

    Args:
        kernel: Of one of autosched's templates, or of a tile program.
        device: The GPU that it is for.

    Raises:
        ValueError: The device has no programmatic dependent launch, or the kernel is not one of autosched's.
    """
    if device.sm < DEPENDENT_SINCE:
        raise ValueError(f"{device.name} has no programmatic dependent launch, which GPUs have from sm_90 on")
    if not can_depend(kernel, device):
        raise ValueError(f"{kernel.name} is not a kernel that {OUR_PACKAGE} generates: it has to wait by itself")
    source = f"#include <{HEADER}>\n" + _FUNCTION.sub(lambda found: found[0] + _BEGIN, kernel.source)
    then = tuple(replace(step, dependent=True) for step in kernel.then)
    return replace(kernel, source=source, dependent=True, then=then)
