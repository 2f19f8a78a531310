"""Verify one configuration for one device: compile with the installed Triton, check resources, and emulate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from autosched.integrations.config_files.file_names import FileName, Format
from autosched.integrations.config_files.installed import kernel_for
from autosched.integrations.config_files.launches import NoSuchKernel, SmallLaunch, parameters_of, small_launch
from autosched.triton.cubin import cubin_resources
from autosched.triton.described import LaunchFailed
from autosched.triton.session import emulated
from autosched.triton.tensor_errors import tensor_errors
from autosched.verify.launch_plan import LaunchPlan
from autosched.verify.oracle import UNVERIFIED, Comparison
from autosched.verify.run import FAILED_LAUNCH
from measurements.compiler.disassembly import DisassemblerMissing, NotDisassembled, disassemble, main_loop
from measurements.files.text import one_line
from measurements.trials.comparison import distinct_texts
from search_spaces.hardware.devices import Device

_PLAN = LaunchPlan(time_limit=120.0)
NO_KERNEL = "no_kernel"  # status: no known kernel supports the type
COMPILED = "compiled"  # status: the configuration compiles and fits on the device; verification was not requested


@dataclass(frozen=True)
class ConfigOutcome:
    """Outcome of one configuration.

    Attributes:
        status: Status of the verdict on the configuration's launch. ``NO_KERNEL`` or ``COMPILED`` if nothing was
            launched.
        reason: Reason of this status, in one line.
        shared_bytes: Shared memory per block in bytes; 0 if the configuration did not compile.
        registers: Registers per thread.
        local_bytes: Local memory per thread in bytes.
        loop_instructions: Instructions of the main loop; 0 if the configuration did not compile, or this machine cannot
            disassemble it.
        error_over_bound: Largest ratio of an error to its bound.
    """

    status: str
    reason: str = ""
    shared_bytes: int = 0
    registers: int = 0
    local_bytes: int = 0
    loop_instructions: int = 0
    error_over_bound: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON."""
        return asdict(self)


def verify_config(
    format: Format, name: FileName, config: Mapping[str, int], device: Device, *, verify: bool
) -> ConfigOutcome:
    """Verify one configuration of a file of vLLM or SGLang by compiling its kernel and emulating a small launch.

    Args:
        format: Package of the file, which determines the kernel.
        name: Parsed file name: experts, sizes, types, block shape.
        config: The configuration: values of BLOCK_SIZE_M, num_warps and so on.
        device: The GPU.
        verify: If True, the launch is emulated; else the kernel is only compiled and checked against the device's
            limits.

    Returns:
        The status with its reason, and the resources of a block.

    Raises:
        HostFailure: This machine cannot run the emulator.
    """
    kernel = kernel_for(format, name.is_moe)
    # vLLM limits BLOCK_SIZE_K to the number of columns that share a scale, whatever the file contains.
    clamped = format == "vllm" and name.is_moe
    with emulated(device, plan=_PLAN, fake_cuda=False, check=False) as session:
        try:
            launch = small_launch(parameters_of(kernel.function), name, config, clamped)
        except NoSuchKernel as error:
            return ConfigOutcome(NO_KERNEL, f"{kernel.origin}: {error}" if kernel.package else str(error))
        try:
            compiled = kernel.function.warmup(grid=launch.grid, **launch.arguments)
        except Exception as error:  # the compiler may raise any exception, which becomes the reason of the outcome
            return ConfigOutcome("compile_error", _compiler_message(error))
        cubin = cubin_resources(compiled.asm["cubin"])
        outcome = ConfigOutcome(
            COMPILED,
            shared_bytes=int(compiled.metadata.shared),
            registers=cubin.registers if cubin else 0,
            local_bytes=cubin.local_bytes if cubin else 0,
            loop_instructions=_loop_instructions(compiled.asm["cubin"], compiled.metadata.name),
        )
        reason = _too_large(outcome, config.get("num_warps", 4), device)
        if reason:
            return replace(outcome, status=FAILED_LAUNCH, reason=reason)
        if not verify:
            return outcome
        try:
            kernel.function[launch.grid](**launch.arguments)
        except LaunchFailed as error:
            return replace(
                outcome,
                status=session.verdict().status if session.launches else UNVERIFIED,
                reason=one_line(str(error)),
            )
        faults = session.fault_lines()
    verdict = session.verdict(_compared(launch))
    reason = one_line("; ".join(faults[:3])) if faults else verdict.reason
    return replace(
        outcome, status=verdict.status, reason=reason, error_over_bound=(verdict.worst or 0.0) if verdict.ok else 0.0
    )


def _loop_instructions(cubin: bytes, entry: str) -> int:
    try:
        return len(main_loop(disassemble(cubin, entry)))
    except (DisassemblerMissing, NotDisassembled):
        return 0


def _compared(launch: SmallLaunch) -> Comparison:
    """Check that each element of a launch's output differs from the expected product by at most its error bound."""
    actual, wanted, allowed = (t.double().numpy().reshape(-1) for t in (launch.out, launch.expected, launch.bound))
    ratio, wrong = tensor_errors(launch.out.dtype, actual, wanted, allowed)
    worst, at = float(ratio.max(initial=0.0)), int(ratio.argmax())
    if not wrong.any():
        return Comparison(worst)
    row, column = divmod(at, launch.out.shape[1])
    value, should = distinct_texts(float(actual[at]), float(wanted[at]))
    return Comparison(
        worst,
        f"element ({row}, {column}) is {value}, not {should}: "
        f"{int(wrong.sum())} of {wrong.size} elements exceed their error bound",
    )


def _too_large(outcome: ConfigOutcome, warps: int, device: Device) -> str:
    if outcome.shared_bytes > device.shared_per_block:
        return (
            f"each block needs {outcome.shared_bytes:,} bytes of shared memory, but a block on {device.name} has at "
            f"most "
            f"{device.shared_per_block:,}"
        )
    each = -(-outcome.registers * device.warp_size // device.register_allocation_unit) * device.register_allocation_unit
    if warps * each > device.registers_per_block:
        return (
            f"the {warps} warps of a block need {warps * each:,} registers, but a block on {device.name} has at most "
            f"{device.registers_per_block:,}"
        )
    return ""


def _compiler_message(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return one_line(f"{type(error).__name__}: {lines[-1] if lines else ''}")[:300]
