"""One compiled configuration of a Triton function, with the arguments of its launch. No GPU is needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from triton.runtime.errors import OutOfResources

from autosched.triton.arguments import ArgumentMismatch, LaunchArguments
from autosched.triton.cubin import cubin_resources
from autosched.triton.described import LaunchFailed, described_launch
from autosched.triton.driver import TritonLaunch, activated
from autosched.triton.storages import Storages
from autosched.triton.tuning.call import KernelCall
from autosched.triton.tuning.function import TritonFunction
from measurements.files.text import one_line
from measurements.trials.measurement import Resources, Status
from search_spaces.hardware.devices import Device
from search_spaces.launches.launch import Launch

_REASON = 300  # a compiler's message is truncated to this number of characters


class NotLaunched(Exception):
    """A configuration that could not be launched. ``status`` classifies the ``reason``, which is one line."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass
class Capture:
    """A launcher that records launches instead of running them. Implements ``driver.Launcher``."""

    device: Device
    launches: list[TritonLaunch]

    def launch(self, launch: TritonLaunch) -> None:
        """Record the launch without running it."""
        self.launches.append(launch)

    def benchmark(self, call: Callable[[], Any]) -> float:
        """Raise RuntimeError, because nothing is timed during compilation."""
        raise RuntimeError("kernels are not timed during compilation")

    def torch_device(self) -> Any:
        """Return the CPU."""
        import torch

        return torch.device("cpu")

    def device_interface(self) -> Any:
        """Return ``torch.cpu``."""
        import torch

        return torch.cpu


@dataclass(frozen=True, eq=False)
class CompiledCandidate:
    """A compiled launch as the emulator needs it: PTX, arguments and options."""

    ptx: str
    cubin: bytes
    launch: Launch
    arguments: LaunchArguments
    resources: Resources
    seconds: float

    @property
    def summary(self) -> str:
        """Resources of the candidate, in one line."""
        r = self.resources
        spills = f", {r.stack_bytes} bytes of spills" if r.stack_bytes else ""
        return f"{r.registers} registers, {r.dynamic_shared_bytes:,} bytes of shared memory{spills}"


def compiled(
    function: TritonFunction,
    call: KernelCall,
    values: Mapping[str, Any],
    hook: Callable[[Any], Any] | None,
    device: Device,
    storages: Storages,
) -> CompiledCandidate:
    """Compile a configuration as Triton would on the device, and return its launch.

    Args:
        function: The kernel.
        call: Grid and arguments of the kernel, on the CPU.
        values: The configuration: constants and launch options by name.
        hook: Function that is called with all arguments before the launch, like ``pre_hook``; None for no hook.
        device: The GPU.
        storages: Registry of undefined bytes of the arguments.

    Returns:
        PTX, cubin, grid and arguments of the launch, and the compile time in seconds.

    Raises:
        NotLaunched: Triton rejects the configuration, or a block does not fit on the device.
    """
    capture = Capture(device, [])
    arguments = {**call.arguments, **values}
    began = time.monotonic()
    with activated(capture):
        try:
            if hook is not None:
                hook(dict(arguments))
            function.run.run(grid=call.grid, warmup=False, **arguments)
        except Exception as error:
            raise refusal_of(error, device) from error
    if not capture.launches:
        raise NotLaunched(Status.LAUNCH_ERROR, "the grid has no blocks, so nothing is launched")
    (captured,) = capture.launches
    return candidate_of(captured, storages, time.monotonic() - began)


def candidate_of(captured: TritonLaunch, storages: Storages, seconds: float = 0.0) -> CompiledCandidate:
    """Convert a recorded launch, compiled in ``seconds``, to a candidate for the emulator. Raises NotLaunched."""
    try:
        described, launch = described_launch(captured, storages)
    except (ArgumentMismatch, LaunchFailed, ValueError) as error:
        raise NotLaunched(Status.LAUNCH_ERROR, one_line(str(error))) from error
    return CompiledCandidate(captured.ptx, captured.cubin, launch, described, _resources(captured), seconds)


def _resources(launch: TritonLaunch) -> Resources:
    resources = cubin_resources(launch.cubin)
    registers, local = (0, 0) if resources is None else (resources.registers, resources.local_bytes)
    return Resources(registers, local, local, local, 0, int(launch.metadata.shared))


def refusal_of(error: Exception, device: Device) -> NotLaunched:
    """Convert an exception raised by Triton to a status with a reason."""
    if isinstance(error, OutOfResources):
        return NotLaunched(Status.OUT_OF_RESOURCES, _refusal(error, device))
    return NotLaunched(Status.COMPILE_ERROR, _compile_error(error))


def _refusal(error: OutOfResources, device: Device) -> str:
    if error.name == "shared memory":
        return f"a block needs {error.required:,} bytes of shared memory, but {device.name} has {error.limit:,}"
    if error.name == "threads":
        return f"a block has {error.required} threads, but {device.name} has registers for only {error.limit}"
    return f"a block needs {error.required} of {error.name}, but {device.name} has {error.limit}"


def _compile_error(error: Exception) -> str:
    """Return the last informative line of Triton's message, because the message begins with the source."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" ^")]
    where = lines[0] if len(lines) > 1 and lines[0].startswith("at ") else ""
    message = one_line(" ".join(part for part in (where, lines[-1] if lines else "") if part))[:_REASON]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
