"""Run a kernel's launch on the CPU and report its faults; see docs/explanation/emulator.md.

The launch runs in a separate process: a kernel that crashes or never ends is a result, not an error of the emulator.
"""

from __future__ import annotations

import math
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from measurements.emulator.effect import time_limit_of, without_harmless
from measurements.emulator.emulate_options import EmulateOptions
from measurements.emulator.findings import Emulation
from measurements.emulator.host.build import runner
from measurements.emulator.host.compiler import HostFailure, last_line, machine_sentence
from measurements.emulator.memory import PLAIN_MEMORY, Memory
from measurements.emulator.pipeline import run_steps
from measurements.emulator.ptx.build import (
    CompiledBytecode,
    KernelCompileError,
    compile_to_bytecode,
    ptx_to_bytecode,
    read_sites,
)
from measurements.emulator.runner_files import (
    RunnerReport,
    RunSettings,
    job_text,
    read_flags,
    read_outputs,
    write_data,
)
from measurements.files.text import harmless
from measurements.files.work_folders import temporary_folder
from search_spaces.arrays import Array
from search_spaces.hardware.dtypes import U32
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Launch
from search_spaces.launches.operand import Operand

_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP)
GRACE_SECONDS = 10.0  # seconds to start a runner and read its report, in addition to the launch's time limit
BUSY = 20.0  # wall-clock seconds allowed per CPU second of the time limit, because the machine may be busy


_PROBE = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry probe(.param .u64 out) {
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r1;
  ret;
}
"""
_PROBED = Launch(entry="probe", arguments=(Operand("out", "output", U32, (64,)),), grid=(1, 1, 1), block=(64, 1, 1))


@contextmanager
def machine_failures() -> Iterator[None]:
    """Convert errors of this machine to HostFailure."""
    try:
        yield
    except OSError as error:
        raise HostFailure(machine_sentence(error)) from error
    except MemoryError as error:
        raise HostFailure("the emulator is out of memory: free some, or raise its limit (ulimit -v)") from error


def emulate(
    kernel: GeneratedKernel, inputs: Mapping[str, Array], options: EmulateOptions | None = None, **keywords: Any
) -> Emulation:
    """Compile ``kernel`` to PTX with NVRTC and execute its launch, or all launches of a pipeline, on the CPU.

    Before the launch, outputs and workspaces that are not zeroed are poisoned with bytes of 0xFF.

    Args:
        kernel: Source, launch and operands.
        inputs: An array for each operand of role input or inout, in its storage type and shape.
        options: Options of the emulation. Default: ``EmulateOptions()``.
        keywords: Fields of ``EmulateOptions`` by name, which override fields of ``options``.

    Returns:
        The outputs, findings and counts. ``status`` also reports kernels that do not compile or do not terminate.

    Raises:
        HostFailure: If this machine is the cause: NVRTC is missing, the C++ compiler is missing or broken, or memory or
            disk space runs out.
        ValueError: For inputs that do not fit, blocks outside of the grid, or a launch that no GPU supports.
        TypeError: For an unknown option.
    """
    settings = RunSettings.gathered(options, keywords)
    with machine_failures():
        if not kernel.then:
            return _launched(kernel, partial(compile_to_bytecode, kernel), inputs, settings)
        if settings.blocks is not None or settings.memory != PLAIN_MEMORY:
            raise ValueError("a pipeline has several launches: leave out the options `blocks` and `memory`")
        arrays = _check(kernel, inputs)

        def run(step: GeneratedKernel, inputs: Mapping[str, Array], memory: Memory) -> Emulation:
            return _emulate(step, partial(compile_to_bytecode, step), inputs, replace(settings, calls=1, memory=memory))

        return run_steps(kernel, arrays, settings.calls, run)


def emulate_ptx(
    text: str, launch: Launch, inputs: Mapping[str, Array], options: EmulateOptions | None = None, **keywords: Any
) -> Emulation:
    """Execute PTX text of any compiler, without NVRTC.

    Args:
        text: A PTX module.
        launch: Grid, block and operands; ``launch.entry`` is the name of the kernel, or "" if the module has only one.
        inputs: As for ``emulate``.
        options: Options of the emulation. Default: ``EmulateOptions()``.
        keywords: Fields of ``EmulateOptions`` by name, which override fields of ``options``.

    Returns:
        As ``emulate``.

    Raises:
        HostFailure: If this machine cannot run the emulation.
        ValueError: As ``emulate``.
        TypeError: For an unknown option.
    """
    settings = RunSettings.gathered(options, keywords)
    with machine_failures():
        return _launched(launch, partial(ptx_to_bytecode, text, launch.entry), inputs, settings)


def _launched(
    launch: Launch, compile_it: Callable[[], CompiledBytecode], inputs: Mapping[str, Array], settings: RunSettings
) -> Emulation:
    """Check that a launch and its inputs are valid, and execute the launch."""
    blocks = settings.blocks
    if blocks is not None and not (blocks and min(blocks) >= 0 and max(blocks) < math.prod(launch.grid)):
        raise ValueError(f"blocks must be indices of blocks in the grid: 0 to {math.prod(launch.grid) - 1}")
    settings.memory.check(launch)
    return _emulate(launch, compile_it, _check(launch, inputs, settings.memory), settings)


def _emulate(
    launch: Launch, compile_it: Callable[[], CompiledBytecode], arrays: Mapping[str, Array], settings: RunSettings
) -> Emulation:
    try:
        compiled = compile_it()
    except KernelCompileError as error:
        return error.emulation
    with temporary_folder() as folder:
        done = run_launch(launch, arrays, compiled, folder, settings)
    if done.status == "crashed" and launch != _PROBED:
        _check_runner()
    return done


def _check_runner() -> None:
    """Run a kernel that is known to be correct, to find out whether the runner is the cause of a crash.

    Raises:
        HostFailure: If the correct kernel fails, too. The broken runner is deleted, and compiled again next time.
    """
    done = emulate_ptx(_PROBE, _PROBED, {}, time_limit=GRACE_SECONDS)
    if done.status != "ok" or done.outputs["out"].tolist() != list(range(64)):
        runner().unlink(missing_ok=True)
        raise HostFailure(f"the emulator fails even for a correct kernel ({done.reason or 'wrong numbers'}): try again")


def _check(kernel: Launch, inputs: Mapping[str, Array], memory: Memory = PLAIN_MEMORY) -> dict[str, Array]:
    expected = {o.name: o for o in memory.operands(kernel) if o.role in ("input", "inout")}
    if set(inputs) != set(expected):
        raise ValueError(f"inputs must be {sorted(expected)}, not {sorted(inputs)}")
    if kernel.threads > 1024 or math.prod(kernel.grid) >= 2**31:
        raise ValueError(
            f"invalid grid {kernel.grid} x block {kernel.block}: use 1 to 2^31 - 1 blocks of 1 to 1024 threads"
        )
    arrays = {}
    for name, operand in expected.items():
        array = np.ascontiguousarray(inputs[name])
        if array.dtype != np.dtype(operand.dtype.storage) or array.shape != operand.shape:
            raise ValueError(
                f"input {name} must be {operand.dtype.storage} of shape {operand.shape}, "
                f"not {array.dtype} of shape {array.shape}"
            )
        arrays[name] = array
    return arrays


def run_launch(
    launch: Launch, arrays: Mapping[str, Array], compiled: CompiledBytecode, folder: Path, settings: RunSettings
) -> Emulation:
    """Run a compiled kernel in the order of blocks that ``settings`` requests.

    Args:
        launch: Grid, block and operands.
        arrays: The inputs, by name.
        compiled: Bytecode of the kernel.
        folder: An empty folder for the runner's files.
        settings: Options of the run.

    Returns:
        The emulation, with outputs if the launch has ended.

    Raises:
        HostFailure: As ``run_job``.
        OSError: If ``folder`` cannot be written.
    """
    blocks, order = settings.blocks, settings.order
    if blocks is not None:
        blocks = [blocks[i] for i in order.of(len(blocks))]
    elif order.blocks != "ascending":
        blocks = [int(b) for b in order.of(math.prod(launch.grid))]
    memory, data = settings.memory, folder / "data"
    operands = memory.operands(launch)

    def run(time_limit: float, poison: int = 0) -> Emulation:
        write_data(data, launch, arrays, memory)
        text = job_text(launch, replace(settings, blocks=blocks, time_limit=time_limit, poison=poison))
        done = run_job(compiled, text, folder, time_limit)
        if done.status not in ("ok", "findings"):
            return done
        defined, written, used = read_flags(data, launch, memory)
        return replace(done, outputs=read_outputs(data, operands), defined=defined, written=written, used=used)

    done = run(settings.time_limit)
    if not settings.check:
        return done
    return without_harmless(done, lambda poison: run(time_limit_of(done, settings.time_limit), poison), _left_the_same)


def _left_the_same(done: Emulation, other: Emulation) -> bool:
    """Return True if the outputs of two runs of a launch are equal, apart from undefined bytes."""

    def same(name: str, array: Array) -> bool:
        differ = array.reshape(-1).view(np.uint8) != other.outputs[name].reshape(-1).view(np.uint8)
        return not (differ[done.defined[name]] if name in done.defined else differ).any()

    flags = all(np.array_equal(flags, other.defined[name]) for name, flags in done.defined.items())
    return flags and all(same(name, array) for name, array in done.outputs.items())


def run_job(compiled: CompiledBytecode, text: str, folder: Path, time_limit: float) -> Emulation:
    """Run a launch that is described as text.

    Args:
        compiled: Bytecode of the kernel.
        text: The launch, in the format of runtime/main.cpp.
        folder: Folder with the operands in the file ``data``, which the runner rewrites.
        time_limit: CPU seconds. The runner stops itself at the limit, and is killed if it does not.

    Returns:
        The emulation, without outputs.

    Raises:
        HostFailure: If the runner cannot be built or started, or dies for a reason other than the kernel.
        OSError: If ``folder`` cannot be written.
    """
    program = runner()
    job, data, report = folder / "job", folder / "data", folder / "report"
    job.write_text(text)
    report.touch()
    started = time.monotonic()
    command = [str(program), str(compiled.path), str(job), str(data), str(report)]
    killed = False
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=BUSY * time_limit + GRACE_SECONDS,
            check=False,
        )
        code, stderr = done.returncode, harmless(done.stderr)
    except subprocess.TimeoutExpired:  # subprocess.run has killed the runner
        killed, code, stderr = True, 0, ""
    if code == 5:
        return _refused(compiled, stderr)
    events = RunnerReport(report.read_text(errors="replace"), read_sites(compiled.path))
    # A complete report ends with an "end" line. If it is missing, the runner itself failed, unless a crash explains it.
    if events.end is None and not killed and -code not in _CRASHES:
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        why = f": {last_line(stderr)}" if stderr.strip() else ""
        raise HostFailure(f"an emulated launch {how}{why}: free up memory and disk space, and try again")
    status, reason = events.status(killed, code, time_limit)
    return Emulation(
        status=status,
        outputs={},
        findings=tuple(events.findings),
        shared_sites=events.shared_sites,
        global_sites=events.global_sites,
        reason=reason,
        printed=events.printed,
        compile_seconds=compiled.seconds,
        run_seconds=time.monotonic() - started,
        from_cache=compiled.from_cache,
        executed=tuple(sorted(events.executed.items())),
        lines=events.lines,
        chains=events.chains,
        code=events.code,
        unknown=events.unknown,
        uses=events.uses,
        variables=events.variables,
        waited=events.waited,
    )


def _refused(compiled: CompiledBytecode, stderr: str) -> Emulation:
    """Return the result of a launch that the runner has rejected."""
    kind, _, detail = last_line(stderr).partition(": ")
    if kind == "lacking":
        return Emulation("unsupported", {}, (), (), (), reason=detail, compile_seconds=compiled.seconds)
    if kind == "arguments":
        return Emulation("compile_error", {}, (), (), (), reason=detail, compile_seconds=compiled.seconds)
    position = read_sites(compiled.path).get(detail)
    reason = f"{position.source}: not supported: {position.ptx}" if position else f"not supported: {stderr}"
    return Emulation("unsupported", {}, (), (), (), reason=reason, compile_seconds=compiled.seconds)
