"""Changes of device, driver, CUDA, compiler and kernel template since a trial was timed."""

from __future__ import annotations

from dataclasses import dataclass

from measurements.compiler.nvcc import NvccMissing, toolchain_of
from measurements.compiler.nvrtc import NVCC
from measurements.trials.measurement import Provenance
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library
from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.templates.template import KernelTemplate


@dataclass(frozen=True)
class Environment:
    """Current software versions. An unknown version is "" and is not compared."""

    toolchain: str = ""
    driver: str = ""
    cuda: str = ""
    library: str = ""


UNKNOWN = Environment()


def stale_reasons(
    trial: Trial,
    device: Device,
    environment: Environment,
    template: KernelTemplate | None,
    kernel: GeneratedKernel | None,
) -> tuple[str, ...]:
    """Return the changes since ``trial`` was timed.

    Args:
        trial: Best trial of a problem.
        device: Current GPU.
        environment: Current compiler, driver, CUDA and library versions; "" is not compared.
        template: Current template of the schedule; None if the schedule has no template (the vendor's library).
        kernel: Kernel that the current template generates from the schedule for the trial's problem; None if unknown.

    Returns:
        One phrase per change, such as "driver 570.1 to 580.2"; empty if nothing has changed.
    """
    before_info = trial.runner_info
    changed = []
    if kernel is not None and trial.kernel_digest != kernel.digest:
        changed.append(f"the kernel's code (timed by autosched {trial.autosched_version})")
    elif template is not None and trial.template_version != template.version:
        changed.append(f"the template {template.name}")
    if is_library(trial.schedule):
        pairs = [("library", trial.toolchain, environment.library)]
    else:
        pairs = [("compiler", trial.toolchain, _compiler(template, environment))]
    if trial.provenance is not Provenance.ESTIMATED:
        pairs += [("driver", trial.driver, environment.driver), ("CUDA", before_info.cuda, environment.cuda)]
    if trial.device == device.name:
        pairs.append(("SMs", before_info.sm_count, str(device.sm_count)))
    changed += [
        f"{component} {before} to {now}" for component, before, now in pairs if before and now and before != now
    ]
    return tuple(changed)


def _compiler(template: KernelTemplate | None, environment: Environment) -> str:
    """Return the compiler of the template's kernels on this machine; "" if unknown."""
    if template is None or NVCC not in template.compile_options or not environment.toolchain:
        return environment.toolchain
    try:
        return toolchain_of(template.compile_options)
    except NvccMissing:
        return ""
