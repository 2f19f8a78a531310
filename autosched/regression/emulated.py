"""Calls of tuned kernels in the emulator, for tests of users' programs on machines without a GPU."""

from __future__ import annotations

from typing import Any

from autosched.verify.launch import LaunchUnderTest
from autosched.verify.launch_plan import TIME_LIMIT, LaunchPlan
from autosched.verify.launches import verify_launch
from search_spaces.arrays import Array
from search_spaces.launches.generated_kernel import GeneratedKernel


class EmulationFailed(RuntimeError):
    """The emulator found a fault in the kernel, or could not run it. The message is one line."""


class EmulatedKernel:
    """A kernel on numpy arrays, ``out = kernel(a, b)``. It is called like a loaded kernel, but runs in the emulator.

    Arrays have the shapes of the operands in memory and their storage types (bf16 values are stored as uint16). A first
    dimension of 1 may be omitted. If the first input omits this dimension, the result omits it too. Emulation is far
    slower than a GPU: use problems of a few tiles.
    """

    def __init__(self, kernel: GeneratedKernel, *, time_limit: float = TIME_LIMIT) -> None:
        self.kernel = kernel
        self.inputs = tuple(o for o in kernel.operands if o.role == "input")
        self.outputs = tuple(o for o in kernel.operands if o.role == "output")
        self._time_limit = time_limit

    def __call__(self, *arrays: Array, **named: Array) -> Any:
        """Run the kernel, and return the output, or a tuple of outputs.

        Raises:
            TypeError: Arguments are missing, repeated or unknown.
            ValueError: An array has the wrong shape or type.
            EmulationFailed: The kernel has a race, accesses memory out of bounds, or does not terminate.
            HostFailure: There is no compiler for the emulator.
        """
        names = [operand.name for operand in self.inputs]
        arguments = dict(zip(names, arrays, strict=False)) | named
        if len(arrays) + len(named) != len(names) or set(arguments) != set(names):
            raise TypeError(f"the kernel needs each of {', '.join(names)} exactly once")
        lead = arguments[names[0]].shape != self.inputs[0].shape
        full_arrays = {
            o.name: arguments[o.name][None] if (1, *arguments[o.name].shape) == o.shape else arguments[o.name]
            for o in self.inputs
        }
        verdict = verify_launch(LaunchUnderTest(self.kernel, full_arrays), LaunchPlan(time_limit=self._time_limit))
        if not verdict.ok:
            raise EmulationFailed(f"{self.kernel.name}: {verdict.status}: {verdict.reason}")
        outputs = verdict.emulation.outputs
        results = tuple(outputs[o.name][0] if lead else outputs[o.name] for o in self.outputs)
        return results if len(results) > 1 else results[0]
